#include "gateway/services/health_service.h"

#include <stdlib.h>
#include <uv.h>

#include "api/health.pb-c.h"
#include "gateway/edge/server.h"
#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/request.h"

enum { WATCH_PERIOD_MS = 500 };

typedef Health__HealthCheckResponse__ServingStatus serving_status;

/* A stream of Watch looks now and then: changes are rare. */
struct health_watch {
    uv_timer_t timer; /* first: its close callback frees the whole */
    struct request *request;
    serving_status told;
};

static bool is_served(const char *service)
{
    if (service[0] == '\0') {
        return true; /* the gateway as a whole */
    }
    size_t count;
    const struct schema_method *methods = schema_methods(&count);
    for (size_t i = 0; i < count; i++) {
        if (cstr_eq(methods[i].service, service) && method_find(str_from(methods[i].path))) {
            return true;
        }
    }
    return false;
}

/* All of these need a sandbox. The others, and the gateway as a whole, serve without an executor.
 */
static bool is_served_by_executor(const char *service)
{
    return cstr_eq(service, "octelium.api.main.cordium.v1.WorkspaceService") ||
           cstr_eq(service, "cordium.ext.v1.RunService");
}

static serving_status status_of(const struct request *r)
{
    const struct Health__HealthCheckRequest *asked = (const Health__HealthCheckRequest *)r->message;
    if (!is_served(asked->service)) {
        return HEALTH__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN;
    }
    bool lacks_executor =
        is_served_by_executor(asked->service) && !executor_link_host(r->gateway->executor);
    return lacks_executor || edge_server_is_draining(r->gateway->edge)
               ? HEALTH__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
               : HEALTH__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
}

void health_check_handle(struct request *r)
{
    Health__HealthCheckResponse answer = HEALTH__HEALTH_CHECK_RESPONSE__INIT;
    answer.status = status_of(r);
    if (answer.status == HEALTH__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN) {
        request_fail_with(r, STATUS_NOT_FOUND, "there is no such service here");
        return;
    }
    request_reply(r, &answer.base);
}

static void tell(struct health_watch *w, serving_status status)
{
    Health__HealthCheckResponse answer = HEALTH__HEALTH_CHECK_RESPONSE__INIT;
    answer.status = status;
    w->told = status;
    (void)request_send(w->request, &answer.base); /* one a period at most: no queue to watch */
}

static void on_timer(uv_timer_t *timer)
{
    struct health_watch *w = (struct health_watch *)timer;
    serving_status now = status_of(w->request);
    if (now != w->told) {
        tell(w, now);
    }
    if (edge_server_is_draining(w->request->gateway->edge)) {
        /* The last that there is to say; an open stream would only hold the drain up. */
        request_finish(w->request);
    }
}

static void free_watch(uv_handle_t *handle)
{
    free(handle);
}

static void on_gone(struct request *r)
{
    struct health_watch *w = r->state;
    r->state = NULL;
    uv_close((uv_handle_t *)&w->timer, free_watch);
}

void health_watch_handle(struct request *r)
{
    struct health_watch *w = calloc(1, sizeof *w);
    if (!w) {
        request_fail_memory(r);
        return;
    }
    w->request = r;
    (void)uv_timer_init(r->gateway->loop, &w->timer); /* always succeeds */
    r->state = w;
    r->on_gone = on_gone;
    tell(w, status_of(r));
    (void)uv_timer_start(&w->timer, on_timer, WATCH_PERIOD_MS, WATCH_PERIOD_MS);
}
