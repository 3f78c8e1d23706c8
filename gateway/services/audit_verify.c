#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/auditfile/verify.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/audit_service.h"

/* AuditService.Verify. */

enum { VERIFY_ARENA_MAX_BYTES = 1 << 20, VERIFY_THREADS = 2 };

struct verification {
    const char *key_path;
    bool has_anchor;
    struct chain anchor;
    struct verify_progress progress;
    struct verify_report report;
};

static int run_verify(struct audit_task *task, struct error *err)
{
    struct verification *v = task->state;
    struct public_keys *keys = NULL;
    struct verify_options options = {.anchor = v->has_anchor ? &v->anchor : NULL,
                                     .threads = VERIFY_THREADS,
                                     .progress = &v->progress};
    int rc = public_keys_load(v->key_path, &keys, err);
    options.keys = keys;
    rc = rc ? rc
            : verify_log(line_index_dir(audit_desk_index(task->desk)), &options, &v->report, err);
    public_keys_free(keys);
    return rc;
}

/* Nobody but the one who verifies waits: an event that is late is no use, and few are sent. */
static void on_tick(struct audit_task *task)
{
    struct verification *v = task->state;
    Ext__AuditVerifyEvent event = EXT__AUDIT_VERIFY_EVENT__INIT;
    Ext__AuditVerifyEvent__Progress progress = EXT__AUDIT_VERIFY_EVENT__PROGRESS__INIT;
    progress.lines = atomic_load(&v->progress.lines);
    progress.bytes = atomic_load(&v->progress.bytes);
    event.type_case = EXT__AUDIT_VERIFY_EVENT__TYPE_PROGRESS;
    event.progress = &progress;
    (void)request_send(task->request, &event.base);
}

static void fill_fault(const struct verify_report *r, Ext__AuditVerifyEvent__Verdict *m)
{
    m->fault = (char *)(uintptr_t)verify_fault_name(r->fault); /* only read by the encoder */
    m->file = (char *)(uintptr_t)r->file;
    m->text = (char *)(uintptr_t)r->text;
    m->line = r->line;
    m->sequence = r->sequence;
}

static void finish(struct audit_task *task)
{
    const struct verification *v = task->state;
    const struct verify_report *r = &v->report;
    char last[CHAIN_TEXT_SIZE];
    Ext__AuditVerifyEvent event = EXT__AUDIT_VERIFY_EVENT__INIT;
    Ext__AuditVerifyEvent__Verdict m = EXT__AUDIT_VERIFY_EVENT__VERDICT__INIT;
    chain_format(&r->last_checkpoint, last);
    m.is_intact = r->fault == VERIFY_INTACT;
    if (!m.is_intact) {
        fill_fault(r, &m);
    }
    m.files = r->files;
    m.lines = r->lines;
    m.bytes = r->bytes;
    m.first_sequence = r->first.sequence + 1;
    m.last_sequence = r->last.sequence;
    m.checkpoints = r->checkpoints;
    m.last_checkpoint = r->checkpoints > 0 ? last : m.last_checkpoint;
    m.unsigned_lines = r->unsigned_lines;
    m.deleted_lines = r->deleted_lines;
    m.erased_lines = r->erased_lines;
    m.torn_lines = r->torn_lines;
    m.losses = r->losses;
    event.type_case = EXT__AUDIT_VERIFY_EVENT__TYPE_VERDICT;
    event.verdict = &m;
    task->records = r->lines;
    (void)request_send(task->request, &event.base);
    audit_task_finish(task);
}

static void end(struct audit_task *task)
{
    free(task->state);
}

static void on_cancel(struct audit_task *task)
{
    struct verification *v = task->state;
    atomic_store(&v->progress.stop, true);
}

void audit_verify_handle(struct request *r)
{
    const Ext__AuditVerifyRequest *q = (const Ext__AuditVerifyRequest *)r->message;
    struct chain anchor;
    const char *path = arena_printf(&r->arena, "%s/audit.pub", r->gateway->config->state_dir);
    bool has_anchor = q->anchor[0];
    if (has_anchor && !chain_parse(str_from(q->anchor), &anchor)) {
        request_fail_with(r, STATUS_INVALID_ARGUMENT,
                          "anchor: expected SEQUENCE:HASH, a number and 64 hex digits");
        return;
    }
    if (audit_desk_is_verifying(r->gateway->audit_desk)) {
        request_fail_with(r, STATUS_RESOURCE_EXHAUSTED,
                          "The audit log is being verified for somebody already; try again when "
                          "that is done");
        return;
    }
    struct audit_task *task = audit_task_new(r, false, VERIFY_ARENA_MAX_BYTES);
    if (!task) {
        return;
    }
    struct verification *v = calloc(1, sizeof *v);
    task->state = v;
    task->end = end;
    if (!v || !path) {
        request_fail_memory(r);
        return; /* the task ends with the request */
    }
    v->key_path = path;
    v->has_anchor = has_anchor;
    v->anchor = has_anchor ? anchor : v->anchor;
    task->is_verification = true;
    task->step = run_verify;
    task->stepped = finish;
    task->tick = on_tick;
    task->cancel = on_cancel;
    audit_task_go_on(task);
}
