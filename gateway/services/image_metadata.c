#include "gateway/services/image_metadata.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <string.h>

#include "policy/base/bytes.h"

/* cJSON stops at a NUL and recurses; the text is short, and the depth is bounded by its own limit
 * (CJSON_NESTING_LIMIT). */

static int wrong(const char *member, struct error *err)
{
    return error_set(err, STATUS_INVALID_ARGUMENT,
                     "The image's metadata has no usable '%s'; the build of the image went wrong",
                     member);
}

static bool text_is_fine(const char *text, size_t max)
{
    size_t n = strnlen(text, max + 1);
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) {
            return false;
        }
    }
    return n <= max;
}

/* A missing member is "". */
static int read_text(const cJSON *root, const char *name, size_t max, struct arena *arena,
                     const char **ret, struct error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);
    *ret = "";
    if (!item || cJSON_IsNull(item)) {
        return 0;
    }
    if (!cJSON_IsString(item) || !text_is_fine(item->valuestring, max)) {
        return wrong(name, err);
    }
    *ret = arena_strdup(arena, item->valuestring);
    return *ret ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "Image metadata: no memory");
}

/* "" or absolute and without "..". */
static int read_path(const cJSON *root, const char *name, struct arena *arena, const char **ret,
                     struct error *err)
{
    int rc = read_text(root, name, 512, arena, ret, err);
    if (!rc && (*ret)[0] && ((*ret)[0] != '/' || strstr(*ret, "/../"))) {
        rc = wrong(name, err);
    }
    return rc;
}

static int read_number(const cJSON *root, const char *name, double min, double max, uint64_t *ret,
                       struct error *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(root, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= min && item->valuedouble <= max)) {
        return wrong(name, err);
    }
    *ret = (uint64_t)item->valuedouble;
    return 0;
}

static int read_env(const cJSON *root, struct arena *arena, struct image_metadata *ret,
                    struct error *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(root, "env");
    if (!list || cJSON_IsNull(list)) {
        return 0;
    }
    int count = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : -1;
    if (count < 0 || count > IMAGE_ENV_MAX) {
        return wrong("env", err);
    }
    const char **env = arena_calloc(arena, (size_t)count + 1, sizeof *env);
    const cJSON *item;
    size_t n = 0;
    cJSON_ArrayForEach(item, list)
    {
        if (!env || !cJSON_IsString(item) || strlen(item->valuestring) > 32768) {
            return wrong("env", err);
        }
        env[n] = arena_strdup(arena, item->valuestring);
        if (!env[n++]) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Image metadata: no memory");
        }
    }
    ret->env = env;
    ret->env_count = n;
    return 0;
}

static int read_ids(const cJSON *root, struct image_metadata *ret, struct error *err)
{
    uint64_t uid = 0;
    uint64_t gid = 0;
    int rc = read_number(root, "uid", 1, 65533, &uid, err);
    rc = rc ? rc : read_number(root, "gid", 0, 65533, &gid, err);
    ret->uid = (uint32_t)uid;
    ret->gid = (uint32_t)gid;
    return rc;
}

static int read_members(const cJSON *root, struct arena *arena, struct image_metadata *ret,
                        struct error *err)
{
    int rc = read_text(root, "user", 64, arena, &ret->user, err);
    rc = rc ? rc : read_path(root, "home", arena, &ret->home, err);
    rc = rc ? rc : read_path(root, "shell", arena, &ret->shell, err);
    rc = rc ? rc : read_path(root, "execShell", arena, &ret->exec_shell, err);
    rc = rc ? rc : read_path(root, "workingDir", arena, &ret->working_dir, err);
    rc = rc ? rc : read_text(root, "digest", 128, arena, &ret->digest, err);
    rc = rc ? rc : read_ids(root, ret, err);
    rc = rc ? rc : read_env(root, arena, ret, err);
    if (!rc && cJSON_HasObjectItem(root, "sizeBytes")) {
        rc = read_number(root, "sizeBytes", 0, 1e15, &ret->size_bytes, err);
    }
    if (!rc && !ret->home[0]) {
        rc = wrong("home", err);
    }
    return rc;
}

int image_metadata_parse(struct str json, struct arena *arena, struct image_metadata *ret,
                         struct error *err)
{
    if (json.len > IMAGE_METADATA_MAX_BYTES || str_has_nul(json)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The image's metadata is too large or binary");
    }
    cJSON *root = cJSON_ParseWithLength(json.ptr, json.len);
    struct image_metadata found = {0};
    int rc = cJSON_IsObject(root)
                 ? read_members(root, arena, &found, err)
                 : error_set(err, STATUS_INVALID_ARGUMENT, "The image's metadata is not JSON");
    cJSON_Delete(root);
    if (!rc) {
        *ret = found;
    }
    return rc;
}

/* --- failures --- */

enum { FAILURE_LINES_MAX = 12, FAILURE_TEXT_MAX_BYTES = 4096 };

/* The text went through a hostile build: control characters become spaces. */
static void add_clean(struct buf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        buf_add_u8(out, (unsigned char)*p < 0x20 || *p == 0x7f ? ' ' : (uint8_t)*p);
    }
}

static void add_number(struct buf *out, const cJSON *error, const char *name, const char *before)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(error, name);
    if (cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 1e6) {
        buf_printf(out, "%s%d", before, item->valueint);
    }
}

static void add_last_lines(struct buf *out, const cJSON *error)
{
    const cJSON *lines = cJSON_GetObjectItemCaseSensitive(error, "lastLines");
    int count = cJSON_IsArray(lines) ? cJSON_GetArraySize(lines) : 0;
    for (int i = count > FAILURE_LINES_MAX ? count - FAILURE_LINES_MAX : 0; i < count; i++) {
        const cJSON *line = cJSON_GetArrayItem(lines, i);
        if (cJSON_IsString(line)) {
            buf_add_cstr(out, "\n    ");
            add_clean(out, line->valuestring);
        }
    }
}

static void write_failure(const cJSON *error, struct buf *out)
{
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(error, "message");
    const cJSON *command = cJSON_GetObjectItemCaseSensitive(error, "command");
    if (cJSON_HasObjectItem(error, "step")) {
        add_number(out, error, "step", "Step ");
        add_number(out, error, "steps", "/");
        buf_add_cstr(out, ": ");
        add_clean(out, cJSON_IsString(command) ? command->valuestring : "");
        add_number(out, error, "exitCode", ": exit code ");
        add_last_lines(out, error);
    } else {
        /* The message has the cause already. */
        add_clean(out, cJSON_IsString(message) ? message->valuestring : "The build failed");
    }
}

const char *image_failure_text(struct str json, struct arena *arena)
{
    if (json.len > IMAGE_METADATA_MAX_BYTES || str_has_nul(json)) {
        return NULL;
    }
    cJSON *root = cJSON_ParseWithLength(json.ptr, json.len);
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(root, "error");
    const char *text = NULL;
    if (cJSON_IsObject(error)) {
        struct buf out;
        buf_init(&out, FAILURE_TEXT_MAX_BYTES);
        write_failure(error, &out);
        text = arena_strndup(arena, (const char *)out.ptr, out.len);
        buf_free(&out);
    }
    cJSON_Delete(root);
    return text;
}
