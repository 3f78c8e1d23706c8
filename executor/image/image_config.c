#include "executor/image/image_config.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

#include "policy/base/json_out.h"

enum { LIST_MAX = 4096 };

struct image_config {
    cJSON *whole;
    const cJSON *config; /* the OCI image configuration's "config"; inside whole */
};

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

int image_config_parse(struct str json, struct image_config **ret, struct error *err)
{
    cJSON *whole = cJSON_ParseWithLength(json.ptr, json.len);
    const cJSON *config = member(member(whole, "OCIv1"), "config");

    if (!cJSON_IsObject(config)) {
        cJSON_Delete(whole);
        return error_set(err, STATUS_INTERNAL,
                         "buildah inspect said nothing about the image's configuration");
    }
    struct image_config *c = calloc(1, sizeof(*c));
    if (!c) {
        cJSON_Delete(whole);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
    }
    c->whole = whole;
    c->config = config;
    *ret = c;
    return 0;
}

void image_config_free(struct image_config *config)
{
    if (config) {
        cJSON_Delete(config->whole);
        free(config);
    }
}

static void write_list(struct json_out *j, const char *key, const struct image_config *c,
                       const char *name)
{
    const cJSON *item;
    int count = 0;

    json_key(j, key);
    json_begin_array(j);
    if (c) {
        cJSON_ArrayForEach(item, member(c->config, name))
        {
            if (cJSON_IsString(item) && count++ < LIST_MAX) {
                json_cstring(j, item->valuestring);
            }
        }
    }
    json_end_array(j);
}

static void write_text(struct json_out *j, const char *key, const struct image_config *c,
                       const char *name)
{
    const cJSON *item = c ? member(c->config, name) : NULL;
    json_member_string(j, key, cJSON_IsString(item) ? item->valuestring : "");
}

/* Names of the object's members: ExposedPorts is {"80/tcp": {}}. */
static void write_names(struct json_out *j, const char *key, const struct image_config *c,
                        const char *name)
{
    const cJSON *item;
    int count = 0;

    json_key(j, key);
    json_begin_array(j);
    if (c) {
        cJSON_ArrayForEach(item, member(c->config, name))
        {
            if (item->string && count++ < LIST_MAX) {
                json_cstring(j, item->string);
            }
        }
    }
    json_end_array(j);
}

void image_result_write(struct buf *out, const struct image_result *r)
{
    struct json_out j = json_out_to(out);

    json_begin_object(&j);
    json_member_string(&j, "user", r->account->user);
    json_member_int(&j, "uid", r->account->uid);
    json_member_int(&j, "gid", r->account->gid);
    json_member_string(&j, "home", r->account->home);
    json_member_string(&j, "shell", r->account->shell);
    json_member_string(&j, "execShell", r->account->exec_shell);
    write_list(&j, "env", r->config, "Env");
    write_text(&j, "workingDir", r->config, "WorkingDir");
    write_list(&j, "entrypoint", r->config, "Entrypoint");
    write_list(&j, "cmd", r->config, "Cmd");
    write_text(&j, "imageUser", r->config, "User");
    write_names(&j, "exposedPorts", r->config, "ExposedPorts");
    json_member_string(&j, "digest", r->digest);
    json_member_uint(&j, "sizeBytes", r->size_bytes);
    json_member_uint(&j, "fileCount", r->file_count);
    json_member_uint(&j, "buildMs", r->build_ms);
    json_end_object(&j);
    buf_add_cstr(out, "\n");
}

void image_failure_write(struct buf *out, const struct error *err, const struct build_log *log)
{
    struct json_out j = json_out_to(out);

    json_begin_object(&j);
    json_key(&j, "error");
    json_begin_object(&j);
    json_member_string(&j, "status", status_name(err->status));
    json_member_string(&j, "message", err->text);
    if (log->step > 0) {
        json_member_int(&j, "step", log->step);
        json_member_int(&j, "steps", log->step_count);
        json_member_string(&j, "command", log->step_text);
        if (log->exit_code != 0) {
            json_member_int(&j, "exitCode", log->exit_code);
        }
    }
    json_key(&j, "lastLines");
    json_begin_array(&j);
    for (unsigned i = 0; build_log_kept(log, i); i++) {
        json_cstring(&j, build_log_kept(log, i));
    }
    json_end_array(&j);
    json_end_object(&j);
    json_end_object(&j);
    buf_add_cstr(out, "\n");
}
