#include "gateway/services/workspace_secret.h"

#include <string.h>

#include "gateway/gateway.h"
#include "gateway/state/store.h"

static int take(const char *name, int type_case, const char *value, ProtobufCBinaryData bytes,
                struct arena *arena, const char **ret, struct error *err)
{
    const char *text = NULL;
    if (type_case == CORDIUM__SECRET__DATA__TYPE_VALUE) {
        text = arena_strdup(arena, value);
    } else if (type_case == CORDIUM__SECRET__DATA__TYPE_VALUE_BYTES &&
               !memchr(bytes.data ? bytes.data : (const uint8_t *)"", 0, bytes.len)) {
        text = arena_strndup(arena, (const char *)bytes.data, bytes.len);
    } else {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Secret '%s' holds no text; make it anew with a text value", name);
    }
    *ret = text;
    return text ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "Secret '%s': no memory", name);
}

int workspace_secret_of_space(const struct workspace_run *run, const char *name,
                              struct arena *arena, const char **ret, struct error *err)
{
    const char *space = run->space ? run->space->metadata->name : "";
    const char *full = strchr(name, '.') ? name : arena_printf(arena, "%s.%s", name, space);
    ProtobufCMessage *found;
    if (!full) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Secret '%s': no memory", name);
    }
    int rc = store_get_by_name(run->gateway->store, STORE_SECRET, full, arena, &found, err);
    if (rc) {
        return rc;
    }
    const Cordium__Secret *secret = (const Cordium__Secret *)found;
    /* A spec may only name secrets of its own space, whatever the name says. */
    if (!run->space || !secret->status || !secret->status->space_ref ||
        strcmp(secret->status->space_ref->uid, run->space->metadata->uid) != 0 || !secret->data) {
        return error_set(err, STATUS_NOT_FOUND, "Secret '%s' does not exist in Space '%s'", name,
                         space);
    }
    /* value and value_bytes are members of one union: only the one of the case is looked at. */
    ProtobufCBinaryData bytes = {0, NULL};
    if (secret->data->type_case == CORDIUM__SECRET__DATA__TYPE_VALUE_BYTES) {
        bytes = secret->data->value_bytes;
    }
    return take(name, (int)secret->data->type_case,
                secret->data->type_case == CORDIUM__SECRET__DATA__TYPE_VALUE ? secret->data->value
                                                                             : "",
                bytes, arena, ret, err);
}

int workspace_secret_of_user(const struct workspace_run *run, const char *name, struct arena *arena,
                             const char **ret, struct error *err)
{
    const struct store_filter filter = {.owner_uid = run->owner_uid};
    struct store_list list;
    int rc = store_list_all(run->gateway->store, STORE_USER_SECRET, &filter, arena, &list, err);
    if (rc) {
        return rc;
    }
    size_t n = strlen(name);
    for (size_t i = 0; i < list.count; i++) {
        const Cordium__UserSecret *secret = (const Cordium__UserSecret *)list.items[i];
        const char *full = secret->metadata->name;
        bool matches = strcmp(full, name) == 0 ||
                       (!strchr(name, '.') && strncmp(full, name, n) == 0 && full[n] == '.');
        if (matches && secret->data) {
            ProtobufCBinaryData bytes = {0, NULL};
            if (secret->data->type_case == CORDIUM__USER_SECRET__DATA__TYPE_VALUE_BYTES) {
                bytes = secret->data->value_bytes;
            }
            return take(name, (int)secret->data->type_case,
                        secret->data->type_case == CORDIUM__USER_SECRET__DATA__TYPE_VALUE
                            ? secret->data->value
                            : "",
                        bytes, arena, ret, err);
        }
    }
    return error_set(err, STATUS_NOT_FOUND, "UserSecret '%s' does not exist", name);
}

static int space_secret(void *context, const char *name, const char **ret, struct error *err)
{
    struct workspace_run *run = context;
    return workspace_secret_of_space(run, name, &run->spec_arena, ret, err);
}

static int user_secret(void *context, const char *name, const char **ret, struct error *err)
{
    struct workspace_run *run = context;
    return workspace_secret_of_user(run, name, &run->spec_arena, ret, err);
}

struct workspace_secrets workspace_secrets_of(struct workspace_run *run)
{
    return (struct workspace_secrets){space_secret, user_secret, run};
}
