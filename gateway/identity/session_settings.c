#include "gateway/identity/session_settings.h"

#include "gateway/gateway.h"
#include "gateway/services/duration.h"
#include "gateway/state/store.h"

enum {
    HOUR_SECONDS = 3600,
    DAY_SECONDS = 24 * HOUR_SECONDS,
    ACCESS_SECONDS = 4 * HOUR_SECONDS,
    HUMAN_REFRESH_SECONDS = 21 * HOUR_SECONDS,
    WORKLOAD_REFRESH_SECONDS = 14 * DAY_SECONDS,
    HUMAN_SESSION_SECONDS = 21 * HOUR_SECONDS,
    WORKLOAD_SESSION_SECONDS = 90 * DAY_SECONDS,
    SESSION_SECONDS_MIN = 30 * 60,
    HUMAN_SESSIONS_MAX = 16,
    WORKLOAD_SESSIONS_MAX = 128,
};

static int64_t first_set(int64_t a, int64_t b)
{
    return a > 0 ? a : b;
}

static void apply_settings(struct session_settings *s, const Meta__Duration *session,
                           const Meta__Duration *access, const Meta__Duration *refresh,
                           uint32_t max, Core__Session__Spec__State state)
{
    s->session_seconds = first_set(duration_seconds(session), s->session_seconds);
    s->access_seconds = first_set(duration_seconds(access), s->access_seconds);
    s->refresh_seconds = first_set(duration_seconds(refresh), s->refresh_seconds);
    s->sessions_max = max ? max : s->sessions_max;
    s->state = state != CORE__SESSION__SPEC__STATE__STATE_UNKNOWN ? state : s->state;
}

static void apply_cluster_settings(struct session_settings *s, const Core__ClusterConfig *config,
                                   bool is_workload, bool is_client)
{
    if (!config || !config->spec || !config->spec->session) {
        return;
    }
    const Core__ClusterConfig__Spec__Session *session = config->spec->session;
    if (is_workload && session->workload) {
        const Core__ClusterConfig__Spec__Session__Workload *w = session->workload;
        apply_settings(s, is_client ? w->client_duration : w->clientless_duration,
                       w->access_token_duration, w->refresh_token_duration, w->max_per_user,
                       w->default_state);
    } else if (!is_workload && session->human) {
        const Core__ClusterConfig__Spec__Session__Human *h = session->human;
        apply_settings(s, is_client ? h->client_duration : h->clientless_duration,
                       h->access_token_duration, h->refresh_token_duration, h->max_per_user,
                       h->default_state);
    }
}

int session_settings_load(struct gateway *g, const Core__User *user, bool is_client,
                          struct arena *arena, struct session_settings *ret, struct error *err)
{
    bool is_workload = user->spec && user->spec->type == CORE__USER__SPEC__TYPE__WORKLOAD;
    *ret = (struct session_settings){
        .session_seconds = is_workload ? WORKLOAD_SESSION_SECONDS : HUMAN_SESSION_SECONDS,
        .access_seconds = ACCESS_SECONDS,
        .refresh_seconds = is_workload ? WORKLOAD_REFRESH_SECONDS : HUMAN_REFRESH_SECONDS,
        .sessions_max = is_workload ? WORKLOAD_SESSIONS_MAX : HUMAN_SESSIONS_MAX,
        .state = CORE__SESSION__SPEC__STATE__ACTIVE,
    };
    struct store_list configs;
    int status = store_list_all(g->store, STORE_CLUSTER_CONFIG, &(struct store_filter){0}, arena,
                                &configs, err);
    if (status) {
        return status;
    }
    if (configs.count > 0) {
        apply_cluster_settings(ret, (const Core__ClusterConfig *)configs.items[0], is_workload,
                               is_client);
    }
    if (user->spec && user->spec->session) {
        const Core__User__Spec__Session *own = user->spec->session;
        apply_settings(ret, is_client ? own->client_duration : own->clientless_duration,
                       own->access_token_duration, own->refresh_token_duration, own->max_per_user,
                       own->default_state);
    }
    if (ret->session_seconds < SESSION_SECONDS_MIN) {
        ret->session_seconds = SESSION_SECONDS_MIN;
    }
    return 0;
}
