#ifndef GATEWAY_REQUEST_TRACE_H
#define GATEWAY_REQUEST_TRACE_H

#include <stdint.h>

#include "policy/base/str.h"

struct store;

/* Where the time of one request went: the setting debug.trace, one line of the daemon's own log per
 * answer. `make bench-quick` reads these lines.
 *
 * Time from the headers to the answer, per stage; what a stage waited for is in it. Store times are
 * those of the whole daemon meanwhile, so they belong to the request only when it is alone. */
enum { REQUEST_TRACE_STAGES_MAX = 8 };

struct request_trace {
    uint64_t began_ns;
    uint64_t stage_began_ns;
    uint64_t stage_ns[REQUEST_TRACE_STAGES_MAX];
    uint64_t store_ns_before;
    uint64_t store_writes_before;
};

void request_trace_begin(struct request_trace *t, const struct store *store, uint64_t now_ns);

/* The time since the last mark was `stage`'s. */
void request_trace_mark(struct request_trace *t, unsigned stage, uint64_t now_ns);

/* Writes the line. `names` are those of the stages, `count` of them. */
void request_trace_end(const struct request_trace *t, const struct store *store, struct str path,
                       const char *const *names, unsigned count, uint64_t now_ns);

#endif
