#include "gateway/services/cluster_service.h"

#include "api/user.pb-c.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/identity/authenticate.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/change_outcome.h"
#include "gateway/services/ownership.h"
#include "gateway/services/resource_write.h"
#include "gateway/services/spec_validation.h"
#include "gateway/state/resource.h"

int management_resolve(struct request *r, struct error *err)
{
    Cordium__ClusterConfig *config = NULL;
    int status = access_cluster_config(r, &config, err);
    if (!status) {
        r->touched.target = &config->base;
        status = admin_require(r, err);
    }
    return status;
}

void management_get_handle(struct request *r)
{
    request_reply(r, r->touched.target);
}

static int update_config(struct request *r, const ProtobufCMessage **ret, struct error *err)
{
    ProtobufCMessage *next = NULL;
    int status = resource_reread(r, STORE_CORDIUM_CONFIG, &r->touched.target, err);
    if (!status) {
        status = resource_make_update(r, STORE_CORDIUM_CONFIG, r->touched.target, &next, err);
    }
    if (status) {
        return status;
    }
    const Cordium__ClusterConfig *config = (const Cordium__ClusterConfig *)next;
    status = spec_validate_cluster_config(config->spec, err);
    if (!status) {
        status = ownership_validate(config->spec, err);
    }
    return status ? status
                  : resource_write(r, STORE_CORDIUM_CONFIG, r->touched.target, next,
                                   &(struct store_index){0}, ret, err);
}

void management_update_handle(struct request *r)
{
    struct error err = {0};
    const ProtobufCMessage *result = NULL;
    if (update_config(r, &result, &err)) {
        request_fail(r, &err);
        return;
    }
    change_outcome_set_resource(r, r->touched.target, result);
    request_reply(r, result);
}

void region_list_handle(struct request *r)
{
    const Cordium__ListRegionOptions *options = (const Cordium__ListRegionOptions *)r->message;
    resource_list_reply(r, STORE_REGION, &(struct store_filter){0}, options->common, NULL);
}

static int make_status(struct request *r, User__GetStatusResponse *reply, struct error *err)
{
    User__GetStatusResponse__User *user =
        CODEC_NEW(&r->arena, User__GetStatusResponse__User, user__get_status_response__user);
    User__GetStatusResponse__User__Spec *spec = CODEC_NEW(
        &r->arena, User__GetStatusResponse__User__Spec, user__get_status_response__user__spec);
    User__GetStatusResponse__User__Status *user_status = CODEC_NEW(
        &r->arena, User__GetStatusResponse__User__Status, user__get_status_response__user__status);
    User__GetStatusResponse__Session *session =
        CODEC_NEW(&r->arena, User__GetStatusResponse__Session, user__get_status_response__session);
    User__GetStatusResponse__Session__Spec *session_spec =
        CODEC_NEW(&r->arena, User__GetStatusResponse__Session__Spec,
                  user__get_status_response__session__spec);
    User__GetStatusResponse__Session__Status *session_status =
        CODEC_NEW(&r->arena, User__GetStatusResponse__Session__Status,
                  user__get_status_response__session__status);
    User__GetStatusResponse__Cluster *cluster =
        CODEC_NEW(&r->arena, User__GetStatusResponse__Cluster, user__get_status_response__cluster);
    if (!user || !spec || !user_status || !session || !session_spec || !session_status ||
        !cluster) {
        return resource_no_memory(err);
    }
    spec->email = r->actor.user->spec->email;
    spec->type = (User__GetStatusResponse__User__Spec__Type)r->actor.user->spec->type;
    user->metadata = r->actor.user->metadata;
    user->spec = spec;
    user->status = user_status;
    session_status->type =
        (User__GetStatusResponse__Session__Status__Type)r->actor.session->status->type;
    session_status->is_connected = r->actor.session->status->is_connected;
    session->metadata = r->actor.session->metadata;
    session->spec = session_spec;
    session->status = session_status;
    reply->user = user;
    reply->session = session;
    reply->cluster = cluster;
    return 0;
}

void user_status_handle(struct request *r)
{
    struct error err = {0};
    User__GetStatusResponse reply = USER__GET_STATUS_RESPONSE__INIT;
    struct store_list configs;
    char *domain = arena_strdup(&r->arena, r->gateway->config->domain);
    if (!domain || make_status(r, &reply, &err) ||
        store_list_all(r->gateway->store, STORE_CLUSTER_CONFIG, &(struct store_filter){0},
                       &r->arena, &configs, &err)) {
        if (err.status) {
            request_fail(r, &err);
        } else {
            request_fail_memory(r);
        }
        return;
    }
    reply.domain = domain;
    reply.cluster->metadata = configs.count > 0 ? resource_metadata(configs.items[0]) : NULL;
    request_reply(r, &reply.base);
}

void volume_unsupported_handle(struct request *r)
{
    request_fail_with(r, STATUS_UNIMPLEMENTED,
                      "Volumes are not served by this version: a Workspace that is not ephemeral "
                      "keeps its own storage");
}

void snapshot_unsupported_handle(struct request *r)
{
    request_fail_with(r, STATUS_UNIMPLEMENTED,
                      "Snapshots of Workspaces are not served by this version: build a Template to "
                      "start from prepared storage");
}

void port_sharing_unsupported_handle(struct request *r)
{
    request_fail_with(r, STATUS_UNIMPLEMENTED,
                      "Sharing of ports is not served by this version: there is no portal");
}
