#include "gateway/audit/audit_erasure.h"

#include <fcntl.h>
#include <uv.h>

#include "api/core.pb-c.h"
#include "executor/proc/fd.h"
#include "gateway/audit/audit_event.h"
#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_state.h"
#include "gateway/auditfile/erase.h"
#include "gateway/auditfile/tombstone.h"
#include "gateway/state/store.h"
#include "gateway/version.h"

enum {
    LIST_ARENA_MAX_BYTES = 256 << 20,
    LINES_MAX_BYTES = 1 << 30,
};

struct erasure {
    struct gateway *g;
    uv_loop_t loop;
    int dir_fd;
    struct arena arena;
    struct erase_subject subject;
    struct audit_erasure done;
    int status; /* of the last append */
};

/* ---- who ---- */

static int add_from_store(struct erasure *e, const char *user, struct error *err)
{
    ProtobufCMessage *message = NULL;
    struct error ignored;
    int rc = store_get_by_name(e->g->store, STORE_USER, user, &e->arena, &message, &ignored);
    if (rc == 0) {
        const Core__User *found = (const Core__User *)message;
        return erase_subject_add(&e->subject, found->metadata->uid, &e->arena)
                   ? 0
                   : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    return 0;
}

/* UIDs have a form that names cannot have. */
static bool is_uid(const char *user)
{
    return strlen(user) == 36 && user[8] == '-' && user[13] == '-' && user[18] == '-' &&
           user[23] == '-';
}

static int find_subject(struct erasure *e, const char *user, struct error *err)
{
    if (is_uid(user)) {
        return erase_subject_add(&e->subject, user, &e->arena)
                   ? 0
                   : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    int rc = add_from_store(e, user, err);
    rc = rc ? rc : erase_find_uids(e->dir_fd, user, &e->subject, &e->arena, err);
    if (rc == 0 && e->subject.count == 0) {
        rc = error_set(err, STATUS_NOT_FOUND, "no User '%s' in the audit log, nor in the store",
                       user);
    }
    return rc;
}

/* ---- appending, and waiting for it ---- */

static void on_done(void *arg, int status)
{
    struct erasure *e = arg;
    e->status = status;
}

static int append(struct erasure *e, const struct buf *record, struct error *err)
{
    e->status = -STATUS_UNAVAILABLE;
    if (audit_log_append_signed(e->g->audit, record, on_done, e) == 0) {
        /* Until the line is on the disk, and nothing else is done to files. */
        (void)uv_run(&e->loop, UV_RUN_DEFAULT);
    }
    return e->status ? error_set(err, STATUS_UNAVAILABLE,
                                 "the audit log cannot be written, so nothing is erased")
                     : 0;
}

/* Says what is done, in a file of its own: all earlier lines are in finished ones then. */
static int begin(struct erasure *e, struct error *err)
{
    const struct audit_daemon facts = {.daemon = "gateway",
                                       .event = "AUDIT_ERASE",
                                       .version = GATEWAY_VERSION,
                                       .detail = e->subject.uids[0]};
    struct buf record;
    buf_init(&record, AUDIT_LINE_MAX_BYTES);
    audit_log_rotate(e->g->audit);
    audit_record_daemon(&facts, gateway_wall_ns(e->g), &record);
    int rc = append(e, &record, err);
    buf_free(&record);
    return rc;
}

static int append_tombstones(struct erasure *e, const struct segment *segment,
                             const struct chain *lines, size_t count, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i += TOMBSTONE_ERASED_MAX) {
        struct buf record;
        size_t left = count - i;
        const struct tombstone_erasure t = {
            .name = segment->name,
            .user_uid = e->subject.uids[0],
            .lines = lines + i,
            .count = left < TOMBSTONE_ERASED_MAX ? left : TOMBSTONE_ERASED_MAX,
        };
        buf_init(&record, AUDIT_LINE_MAX_BYTES);
        tombstone_write_erasure(&t, gateway_wall_ns(e->g), &record);
        rc = append(e, &record, err);
        buf_free(&record);
    }
    return rc;
}

/* ---- files ---- */

static int erase_in(struct erasure *e, const struct segment *segment, struct error *err)
{
    struct buf found;
    buf_init(&found, LINES_MAX_BYTES);
    int rc = erase_find_lines(e->dir_fd, segment, &e->subject, &found, err);
    const struct chain *lines = (const struct chain *)(const void *)found.ptr;
    size_t count = found.len / sizeof *lines;
    if (rc == 0 && count > 0) {
        rc = append_tombstones(e, segment, lines, count, err);
        rc = rc ? rc : erase_rewrite(e->dir_fd, segment, lines, count, err);
    }
    if (rc == 0 && count > 0) {
        e->done.lines += count;
        e->done.files++;
    }
    buf_free(&found);
    return rc;
}

static int erase_all(struct erasure *e, struct error *err)
{
    struct segment *list;
    size_t count;
    int rc = segment_list(e->dir_fd, &e->arena, &list, &count, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (!list[i].is_active) {
            rc = erase_in(e, &list[i], err);
            rc = rc == -STATUS_NOT_FOUND ? 0 : rc; /* retention took it meanwhile */
        }
    }
    return rc;
}

static int run(struct erasure *e, const char *user, struct error *err)
{
    int rc = find_subject(e, user, err);
    rc = rc ? rc : begin(e, err);
    return rc ? rc : erase_all(e, err);
}

int audit_erase(struct gateway *g, const char *user, struct audit_erasure *ret, struct error *err)
{
    struct erasure e = {.g = g, .dir_fd = -1};
    if (uv_loop_init(&e.loop) < 0) {
        return error_set(err, STATUS_INTERNAL, "cannot make an event loop");
    }
    arena_init(&e.arena, LIST_ARENA_MAX_BYTES);
    int rc = audit_state_open_log(g, &e.loop, err);
    if (rc == 0) {
        e.dir_fd = open(g->config->audit_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        rc = e.dir_fd == -1 ? error_set(err, STATUS_UNAVAILABLE, "cannot open the audit log") : 0;
    }
    rc = rc ? rc : run(&e, user, err);
    audit_log_close(g->audit);
    (void)uv_run(&e.loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&e.loop);
    g->audit = NULL;
    fd_close(&e.dir_fd);
    arena_free(&e.arena);
    *ret = e.done;
    return rc;
}
