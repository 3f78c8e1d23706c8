#include "gateway/services/user_config_service.h"

#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/resource_write.h"
#include "gateway/services/spec_references.h"
#include "gateway/services/spec_validation.h"
#include "gateway/state/resource.h"

/* A fresh one, unstored. */
static int plan_config(struct request *r, Cordium__UserConfig **ret, struct error *err)
{
    Cordium__UserConfig *config = CODEC_NEW(&r->arena, Cordium__UserConfig, cordium__user_config);
    Cordium__UserConfig__Spec *spec =
        CODEC_NEW(&r->arena, Cordium__UserConfig__Spec, cordium__user_config__spec);
    Cordium__UserConfig__Status *st =
        CODEC_NEW(&r->arena, Cordium__UserConfig__Status, cordium__user_config__status);
    const char *name = arena_printf(&r->arena, "default.%s", access_user_name(r));
    if (!config || !spec || !st || !name) {
        return resource_no_memory(err);
    }
    config->spec = spec;
    config->status = st;
    int status = resource_stamp_new(&config->base, STORE_USER_CONFIG, name, r->started_at_ns,
                                    &r->arena, err);
    st->user_ref = resource_ref(&r->actor.user->base, &r->arena);
    *ret = config;
    return status || st->user_ref ? status : resource_no_memory(err);
}

static int find_config(struct request *r, ProtobufCMessage **ret, struct error *err)
{
    struct store_filter own = {.owner_uid = access_user_uid(r)};
    struct store_list list;
    int status = store_list_all(r->gateway->store, STORE_USER_CONFIG, &own, &r->arena, &list, err);
    if (!status) {
        *ret = list.count > 0 ? list.items[0] : NULL;
    }
    return status;
}

int user_config_resolve(struct request *r, struct error *err)
{
    ProtobufCMessage *found = NULL;
    int status = find_config(r, &found, err);
    if (!status && !found) {
        Cordium__UserConfig *planned = NULL;
        status = plan_config(r, &planned, err);
        found = planned ? &planned->base : NULL;
    }
    r->touched.target = found;
    return status;
}

/* Stores the planned one. Another request of the same user may have been faster. */
static int store_config(struct request *r, struct error *err)
{
    ProtobufCMessage *found = NULL;
    int status = find_config(r, &found, err);
    if (status || found) {
        r->touched.target = found ? found : r->touched.target;
        return status;
    }
    struct store_index index = {.owner_uid = access_user_uid(r)};
    return store_insert(r->gateway->store, STORE_USER_CONFIG, r->touched.target, &index, err);
}

void user_config_get_handle(struct request *r)
{
    struct error err = {0};
    if (store_config(r, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, r->touched.target);
}

/* "" clears the preference. */
static int set_region(struct request *r, Cordium__UserConfig *config, struct error *err)
{
    config->status->preferred_region_ref = NULL;
    if (!config->spec->preferred_region[0]) {
        return 0;
    }
    ProtobufCMessage *region = NULL;
    int status = store_get_by_name(r->gateway->store, STORE_REGION, config->spec->preferred_region,
                                   &r->arena, &region, err);
    if (status == -STATUS_NOT_FOUND) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "spec.preferredRegion: the Region '%s' does not exist",
                         config->spec->preferred_region);
    }
    if (status) {
        return status;
    }
    config->status->preferred_region_ref = resource_ref(region, &r->arena);
    return config->status->preferred_region_ref ? 0 : resource_no_memory(err);
}

static int update_config(struct request *r, const ProtobufCMessage **ret, struct error *err)
{
    ProtobufCMessage *next = NULL;
    int status = store_config(r, err);
    if (!status) {
        status = resource_reread(r, STORE_USER_CONFIG, &r->touched.target, err);
    }
    if (!status) {
        status = resource_make_update(r, STORE_USER_CONFIG, r->touched.target, &next, err);
    }
    if (status) {
        return status;
    }
    Cordium__UserConfig *config = (Cordium__UserConfig *)next;
    status = spec_validate_user_config(config->spec, err);
    if (!status) {
        status = spec_check_user_secrets(r, &config->spec->base, err);
    }
    if (!status) {
        status = set_region(r, config, err);
    }
    struct store_index index = {.owner_uid = access_user_uid(r)};
    return status ? status
                  : resource_write(r, STORE_USER_CONFIG, r->touched.target, next, &index, ret, err);
}

void user_config_update_handle(struct request *r)
{
    struct error err = {0};
    const ProtobufCMessage *result = NULL;
    if (update_config(r, &result, &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply(r, result);
}
