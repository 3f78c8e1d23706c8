#ifndef SERVICES_ONESHOT_H
#define SERVICES_ONESHOT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "api/ext.pb-c.h"
#include "executor/client/executor_client.h"
#include "gateway/services/exec_run.h"
#include "gateway/services/oneshot_files.h"
#include "gateway/services/oneshot_output.h"
#include "gateway/services/oneshot_spec.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* One program in a sandbox of its own, from the request to the result:
 *
 *   image (found, pulled or built) → sandbox → files in → program → files out → result
 *
 * It belongs to the table (oneshot_table.h) until its result is told; its sandbox is taken down
 * after that. Nothing of it is a workspace: no session, no socket, no entry in the store but the
 * result. */
struct gateway;
struct image_waiter;
struct workspace_run;
struct oneshot;

/* Who waits for the end. Must stay until `ended` was called or oneshot_leave(). */
struct oneshot_waiter {
    /* Output as it comes, at most what the limits keep of each stream. May be NULL. */
    void (*output)(struct oneshot_waiter *waiter, enum exec_stream stream, struct str bytes);
    /* Once: the result, or why the program was never started. Borrowed. */
    void (*ended)(struct oneshot_waiter *waiter, const Ext__RunResult *result,
                  const struct error *err);
    bool cancels; /* does not mind when the run ends with the last who waits */
    struct oneshot_waiter *next;
};

/* What to run, judged and allowed. All is copied. */
struct oneshot_order {
    const Ext__RunRequest *request;
    const struct oneshot_plan *plan;
    const Core__User *user;
    const Cordium__Space *space;
    const Cordium__Template *template_;
    char request_sha256[65];
};

struct oneshot {
    struct gateway *gateway;
    struct oneshot *next; /* in the table */
    char id[37];
    char owner_uid[37];
    char name[80]; /* in the store: made of the key when there is one */
    char request_sha256[65];
    bool has_record; /* in the store already, so that the key is taken */

    struct arena arena;
    Ext__RunRequest *request;
    struct oneshot_plan plan; /* over `request` */
    struct workspace_run *place;
    struct executor_sandbox_spec sandbox;

    struct image_waiter *image_waiter;
    struct exec_run *exec;
    uv_timer_t wall_timer;
    uv_timer_t watch_timer; /* looks at CPU time and disk */
    unsigned open_timers;
    unsigned pending; /* answers of the executor that are due */
    bool has_sandbox;
    bool image_was_retried;
    bool is_running;  /* the program itself */
    bool is_watching; /* a question about usage is under way */
    bool is_told;     /* the waiters have their answer */
    bool is_over;
    bool is_disk_full;
    bool are_inodes_full;
    struct executor_network_denied network_denied; /* up to now */

    struct oneshot_output helper[2]; /* of cordium-files */
    struct oneshot_output output[2];
    uint64_t streamed_bytes[2];
    struct buf merged; /* u8 stream, u32 length, bytes … */
    struct exec_outcome outcome;
    struct oneshot_files files;
    char files_error[160];
    uint64_t disk_bytes;
    int64_t started_at_ns; /* wall clock */
    int64_t ended_at_ns;
    char cancelled_by[128];
    struct oneshot_waiter *waiters;
    bool stays; /* somebody waited who wants it to go on without him */
};

/* Begins; the caller has put it into the table when it returns 0, and it may have ended already.
 * UNAVAILABLE, RESOURCE_EXHAUSTED, or what is wrong with the Template's spec. */
int oneshot_new(struct gateway *g, const struct oneshot_order *order, struct oneshot **ret,
                struct error *err);
void oneshot_begin(struct oneshot *o);

/* Frees what was never begun. */
void oneshot_discard(struct oneshot *o);

/* `output` is called at once for what has come so far; of output that was cut, for its beginning.
 */
void oneshot_join(struct oneshot *o, struct oneshot_waiter *waiter);

/* The last waiter takes the run along if all who ever waited asked for that. `who` is for the
 * result's text. */
void oneshot_leave(struct oneshot *o, struct oneshot_waiter *waiter, const char *who);

/* False when the program has ended already. */
bool oneshot_cancel(struct oneshot *o, const char *who);

/* What is known of it now. NULL when the arena is full. */
Ext__RunResult *oneshot_result(const struct oneshot *o, struct arena *arena);

/* The facts as a JSON object for the audit log: outcome, counters, usage, run id. */
void oneshot_write_facts(const Ext__RunResult *result, struct buf *out);

/* The Run's own line in the audit log, whose outcome is filled in. Negative: the log does not take
 * it. */
struct audit_run_end;
int oneshot_record_end(const struct gateway *g, struct audit_run_end *end,
                       const Ext__RunResult *result);

#endif
