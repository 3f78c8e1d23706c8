#include "gateway/services/network_denials.h"

#include <string.h>

#include "gateway/audit/audit_event.h"
#include "gateway/audit/audit_log.h"
#include "gateway/audit/denial_text.h"
#include "gateway/gateway.h"
#include "gateway/services/oneshot.h"
#include "gateway/services/oneshot_table.h"
#include "gateway/services/workspace_run.h"
#include "gateway/telemetry/metrics.h"

enum { LINE_MAX_BYTES = 32768 }; /* 64 destinations of 120 bytes, and the references */

static struct executor_denial *find(struct executor_network_denied *in,
                                    const struct executor_denial *denial)
{
    for (size_t i = 0; i < in->count; i++) {
        struct executor_denial *d = &in->entries[i];
        if (d->address == denial->address && d->port == denial->port &&
            d->is_udp == denial->is_udp && d->reason == denial->reason) {
            return d;
        }
    }
    return NULL;
}

void network_denials_merge(struct executor_network_denied *into,
                           const struct executor_network_denied *event)
{
    into->others += event->others;
    for (size_t i = 0; i < event->count; i++) {
        const struct executor_denial *denial = &event->entries[i];
        struct executor_denial *known = find(into, denial);
        if (known) {
            known->packets += denial->packets;
        } else if (into->count < EXECUTOR_DENIALS_MAX) {
            into->entries[into->count++] = *denial;
        } else {
            into->others += denial->packets;
        }
    }
}

struct owner_search {
    const struct executor_uuid *sandbox;
    struct workspace_run *found;
};

static void search_owner(struct workspace_run *run, void *context)
{
    struct owner_search *search = context;
    if (run->has_sandbox &&
        memcmp(run->sandbox.bytes, search->sandbox->bytes, sizeof run->sandbox.bytes) == 0) {
        search->found = run;
    }
}

/* The workspace, or what a Run has in its place; NULL for the sandbox of an image's build. */
static const struct workspace_run *
find_place(struct gateway *g, const struct executor_uuid *sandbox, struct oneshot **ret_oneshot)
{
    struct owner_search search = {sandbox, NULL};
    *ret_oneshot = g->oneshots ? oneshot_table_find_sandbox(g->oneshots, sandbox) : NULL;
    if (*ret_oneshot) {
        return (*ret_oneshot)->place;
    }
    workspace_table_each(g->workspaces, search_owner, &search);
    return search.found;
}

void network_denials_record(struct gateway *g, const struct executor_network_denied *event)
{
    struct oneshot *o = NULL;
    const struct workspace_run *place = find_place(g, &event->sandbox, &o);
    const struct audit_network facts = {
        .denied = event,
        .run_id = o ? o->id : NULL,
        .workspace = place && !o ? place->workspace : NULL,
        .owner = place && place->workspace->status ? place->workspace->status->user_ref : NULL,
        .space = place ? place->space : NULL,
        .template_ = place ? place->template_ : NULL,
    };
    struct buf line;
    if (o) {
        network_denials_merge(&o->network_denied, event);
    }
    metrics_add(g->metrics, METRIC_NETWORK_DENIED, 0, 0, 0, (int64_t)denial_packets(event));
    buf_init(&line, LINE_MAX_BYTES);
    audit_record_network(&facts, gateway_wall_ns(g), &line);
    if (g->audit) {
        (void)audit_log_append(g->audit, &line, NULL, NULL); /* it reports its own failure */
    }
    buf_free(&line);
}
