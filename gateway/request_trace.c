#include "gateway/request_trace.h"

#include <inttypes.h>
#include <stdio.h>

#include "executor/proc/log.h"
#include "gateway/state/store.h"

enum { LINE_MAX_BYTES = 512 };

void request_trace_begin(struct request_trace *t, const struct store *store, uint64_t now_ns)
{
    const struct store_write_time written = store_write_time(store);
    *t = (struct request_trace){
        .began_ns = now_ns,
        .stage_began_ns = now_ns,
        .store_ns_before = written.ns,
        .store_writes_before = written.count,
    };
}

void request_trace_mark(struct request_trace *t, unsigned stage, uint64_t now_ns)
{
    if (stage < REQUEST_TRACE_STAGES_MAX) {
        t->stage_ns[stage] += now_ns - t->stage_began_ns;
    }
    t->stage_began_ns = now_ns;
}

void request_trace_end(const struct request_trace *t, const struct store *store, struct str path,
                       const char *const *names, unsigned count, uint64_t now_ns)
{
    char line[LINE_MAX_BYTES];
    size_t used = 0;
    const struct store_write_time written = store_write_time(store);
    for (unsigned i = 0; i < count && i < REQUEST_TRACE_STAGES_MAX; i++) {
        int n = snprintf(line + used, sizeof line - used, "%s %" PRIu64 ", ", names[i],
                         t->stage_ns[i] / 1000);
        if (n < 0 || (size_t)n >= sizeof line - used) {
            break;
        }
        used += (size_t)n;
    }
    line[used] = '\0';
    log_info("trace us: %.*s: %sstore %" PRIu64 ", writes %" PRIu64 ", total %" PRIu64,
             STR_ARG(path), line, (written.ns - t->store_ns_before) / 1000,
             written.count - t->store_writes_before, (now_ns - t->began_ns) / 1000);
}
