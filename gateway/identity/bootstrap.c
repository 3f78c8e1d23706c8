#include "gateway/identity/bootstrap.h"

#include <string.h>

#include "gateway/authorize/system_policies.h"
#include "gateway/identity/authenticate.h"
#include "gateway/identity/credential.h"
#include "gateway/identity/session.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/names.h"
#include "gateway/state/resource.h"
#include "gateway/state/store.h"

enum { BOOTSTRAP_ARENA_BYTES = 512 * 1024 * 1024 };

/* What a new store holds beside the system's policies, as the API writes it. The ClusterConfig of
 * Cordium lets everybody own organization spaces, as a fresh install of the original does. */
struct initial {
    enum store_kind kind;
    const char *name;
    const char *json;
    bool is_system; /* nobody can change it */
};

static const struct initial initial[] = {
    {STORE_CLUSTER_CONFIG, "default", "{\"metadata\":{},\"spec\":{}}", false},
    {STORE_CORDIUM_CONFIG, "default",
     "{\"metadata\":{},\"spec\":{\"space\":{\"ownership\":{\"rules\":[{\"effect\":\"ALLOW\","
     "\"condition\":{\"matchAny\":true}}]}}},\"status\":{}}",
     false},
    {STORE_USER, BOOTSTRAP_ADMIN_NAME,
     "{\"metadata\":{\"displayName\":\"Administrator\"},\"spec\":{\"type\":\"HUMAN\","
     "\"authorization\":{\"policies\":[\"allow-all\",\"" ADMIN_POLICY_NAME "\"]}},\"status\":{}}",
     false},
};

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the first resources");
}

static int insert_initial(struct gateway *g, const struct initial *first, struct arena *arena,
                          struct error *err)
{
    const struct store_kind_info *info = store_kind_info(first->kind);
    ProtobufCMessage *message = NULL;
    int status = codec_decode_json(info->descriptor, str_from(first->json), CODEC_STRICT, arena,
                                   &message, err);
    if (!status) {
        status =
            resource_stamp_new(message, first->kind, first->name, gateway_wall_ns(g), arena, err);
    }
    if (!status) {
        resource_metadata(message)->is_system = first->is_system;
        status = store_insert(g->store, first->kind, message, &(struct store_index){0}, err);
    }
    return status ? error_wrap(err, "%s '%s'", info->kind, first->name) : 0;
}

static int insert_policies(struct gateway *g, struct arena *arena, struct error *err)
{
    const struct system_policy *policy;
    int status = 0;
    for (size_t i = 0; !status && (policy = system_policy_at(i)); i++) {
        struct initial first = {STORE_POLICY, policy->name, policy->json, true};
        status = insert_initial(g, &first, arena, err);
    }
    return status;
}

static int insert_region(struct gateway *g, struct arena *arena, struct error *err)
{
    Cordium__Region *region = CODEC_NEW(arena, Cordium__Region, cordium__region);
    Cordium__Region__Spec *spec = CODEC_NEW(arena, Cordium__Region__Spec, cordium__region__spec);
    Cordium__Region__Status *st =
        CODEC_NEW(arena, Cordium__Region__Status, cordium__region__status);
    if (!region || !spec || !st) {
        return no_memory(err);
    }
    region->spec = spec;
    region->status = st;
    int status = resource_stamp_new(&region->base, STORE_REGION, g->config->region,
                                    gateway_wall_ns(g), arena, err);
    return status
               ? status
               : store_insert(g->store, STORE_REGION, &region->base, &(struct store_index){0}, err);
}

static int ensure_region(struct gateway *g, struct arena *arena, struct error *err)
{
    int status = name_check_label("Region", g->config->region, err);
    if (status) {
        return error_wrap(err, "setting 'region'");
    }
    ProtobufCMessage *found = NULL;
    struct error cause = {0};
    if (!store_get_by_name(g->store, STORE_REGION, g->config->region, arena, &found, &cause)) {
        return 0;
    }
    return cause.status == STATUS_NOT_FOUND ? insert_region(g, arena, err)
                                            : error_set(err, cause.status, "%s", cause.text);
}

/* The administrator's credential, unlimited in uses: it is how he gets in at all. */
static int insert_credential(struct gateway *g, struct arena *arena, struct secret *ret_token,
                             struct error *err)
{
    static const char json[] = "{\"metadata\":{},\"spec\":{\"type\":\"AUTH_TOKEN\","
                               "\"user\":\"" BOOTSTRAP_ADMIN_NAME "\"},\"status\":{}}";
    ProtobufCMessage *user = NULL;
    ProtobufCMessage *message = NULL;
    int status = store_get_by_name(g->store, STORE_USER, BOOTSTRAP_ADMIN_NAME, arena, &user, err);
    if (!status) {
        status = codec_decode_json(&core__credential__descriptor, str_from(json), CODEC_STRICT,
                                   arena, &message, err);
    }
    if (!status) {
        status = resource_stamp_new(message, STORE_CREDENTIAL, BOOTSTRAP_ADMIN_NAME,
                                    gateway_wall_ns(g), arena, err);
    }
    if (status) {
        return status;
    }
    Core__Credential *credential = (Core__Credential *)message;
    Core__Credential *rotated = NULL;
    credential->status->user_ref = resource_ref(user, arena);
    if (!credential->status->user_ref) {
        return no_memory(err);
    }
    status = credential_store(g, credential, true, err);
    return status ? status : credential_rotate(g, credential, arena, &rotated, ret_token, err);
}

static int insert_all(struct gateway *g, struct arena *arena, struct secret *ret_token,
                      struct error *err)
{
    int status = insert_policies(g, arena, err);
    for (size_t i = 0; !status && i < sizeof(initial) / sizeof(initial[0]); i++) {
        status = insert_initial(g, &initial[i], arena, err);
    }
    if (!status) {
        status = ensure_region(g, arena, err);
    }
    return status ? status : insert_credential(g, arena, ret_token, err);
}

/* Runs `work` inside a transaction, with an arena. */
static int in_transaction(struct gateway *g,
                          int (*work)(struct gateway *g, struct arena *arena,
                                      struct secret *ret_token, struct error *err),
                          struct secret *ret_token, struct error *err)
{
    struct arena arena;
    int status = store_begin(g->store, err);
    if (status) {
        return status;
    }
    arena_init(&arena, BOOTSTRAP_ARENA_BYTES);
    status = work(g, &arena, ret_token, err);
    arena_free(&arena);
    return store_end(g->store, status, err);
}

int bootstrap_is_done(struct gateway *g, bool *ret, struct error *err)
{
    uint32_t count = 0;
    int status =
        store_count(g->store, STORE_CORDIUM_CONFIG, &(struct store_filter){0}, &count, err);
    if (!status) {
        *ret = count > 0;
    }
    return status;
}

int bootstrap_store(struct gateway *g, struct secret *ret_token, struct error *err)
{
    bool is_done = false;
    int status = bootstrap_is_done(g, &is_done, err);
    if (!status && is_done) {
        status = error_set(err, STATUS_FAILED_PRECONDITION,
                           "The store in '%s' was set up before: 'cordium-gateway admin-token' "
                           "gives a new token for its administrator",
                           g->config->state_dir);
    }
    return status ? status : in_transaction(g, insert_all, ret_token, err);
}

static int tidy(struct gateway *g, struct arena *arena, struct secret *ret_token, struct error *err)
{
    (void)ret_token;
    int status = ensure_region(g, arena, err);
    return status ? status : session_prune(g, arena, err);
}

int bootstrap_check(struct gateway *g, struct error *err)
{
    bool is_done = false;
    int status = bootstrap_is_done(g, &is_done, err);
    if (!status && !is_done) {
        status = error_set(err, STATUS_FAILED_PRECONDITION,
                           "The store in '%s' is empty: run 'cordium-gateway init' first",
                           g->config->state_dir);
    }
    return status ? status : in_transaction(g, tidy, NULL, err);
}

static int rotate_admin(struct gateway *g, struct arena *arena, struct secret *ret_token,
                        struct error *err)
{
    ProtobufCMessage *credential = NULL;
    Core__Credential *rotated = NULL;
    int status = store_get_by_name(g->store, STORE_CREDENTIAL, BOOTSTRAP_ADMIN_NAME, arena,
                                   &credential, err);
    return status ? status
                  : credential_rotate(g, (const Core__Credential *)credential, arena, &rotated,
                                      ret_token, err);
}

int bootstrap_admin_token(struct gateway *g, struct secret *ret_token, struct error *err)
{
    return in_transaction(g, rotate_admin, ret_token, err);
}
