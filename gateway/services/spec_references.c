#include "gateway/services/spec_references.h"

#include <string.h>

#include "gateway/gateway.h"
#include "gateway/services/access.h"
#include "gateway/services/names.h"
#include "gateway/services/resource_write.h"
#include "gateway/services/spec_validation.h"
#include "gateway/state/resource.h"

/* A short name stands for one in the touched Space; a full one must be in it. */
static int name_in_space(struct request *r, const char *kind, const char *name, const char **ret,
                         struct error *err)
{
    const char *space = r->touched.space->metadata->name;
    if (!strchr(name, '.')) {
        *ret = arena_printf(&r->arena, "%s.%s", name, space);
        return *ret ? 0 : resource_no_memory(err);
    }
    if (strcmp(name_parent(name), space) != 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The %s '%.128s' is not in the Space '%s': only that Space's can be named",
                         kind, name, space);
    }
    *ret = name;
    return 0;
}

static int check_exists(struct request *r, enum store_kind kind, const char *full, const char *hint,
                        struct error *err)
{
    ProtobufCMessage *found = NULL;
    struct error cause = {0};
    int status = store_get_by_name(r->gateway->store, kind, full, &r->arena, &found, &cause);
    if (!status) {
        return 0;
    }
    if (cause.status != STATUS_NOT_FOUND) {
        return error_set(err, cause.status, "%s", cause.text);
    }
    return error_set(err, STATUS_NOT_FOUND, "%s: %s", cause.text, hint);
}

static int check_secret(void *arg, const char *name, struct error *err)
{
    struct request *r = arg;
    const char *full = NULL;
    int status = name_in_space(r, "Secret", name, &full, err);
    return status ? status
                  : check_exists(r, STORE_SECRET, full, "create the Secret before naming it", err);
}

int spec_check_secrets(struct request *r, const ProtobufCMessage *spec, struct error *err)
{
    return spec_visit_strings(spec, "from_secret", check_secret, r, err);
}

static int check_user_secret(void *arg, const char *name, struct error *err)
{
    struct request *r = arg;
    const char *full = NULL;
    int status =
        name_complete_of_user("UserSecret", name, access_user_name(r), &r->arena, &full, err);
    return status ? status
                  : check_exists(r, STORE_USER_SECRET, full,
                                 "create the UserSecret before naming it", err);
}

int spec_check_user_secrets(struct request *r, const ProtobufCMessage *spec, struct error *err)
{
    return spec_visit_strings(spec, "from_user_secret", check_user_secret, r, err);
}

int spec_check_volumes(struct request *r, const Cordium__Workspace__Spec__Runtime *runtime,
                       struct error *err)
{
    int status = 0;
    for (size_t i = 0; !status && runtime && i < runtime->n_volume_mounts; i++) {
        const Meta__ObjectReference *ref = runtime->volume_mounts[i]->volume_ref;
        const char *full = "";
        if (!ref->uid[0]) {
            status = name_in_space(r, "Volume", ref->name, &full, err);
        }
        ProtobufCMessage *found = NULL;
        if (!status) {
            status = resource_find(r->gateway->store, STORE_VOLUME, ref->uid, full, &r->arena,
                                   &found, err);
        }
        if (status) {
            return status;
        }
        const Cordium__Volume *volume = (const Cordium__Volume *)found;
        if (!volume->status || !volume->status->space_ref ||
            strcmp(volume->status->space_ref->uid, r->touched.space->metadata->uid) != 0) {
            status =
                error_set(err, STATUS_INVALID_ARGUMENT, "The Volume '%s' is not in the Space '%s'",
                          volume->metadata->name, r->touched.space->metadata->name);
        }
    }
    return status;
}
