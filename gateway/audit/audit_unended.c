#include "gateway/audit/audit_unended.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "executor/proc/fd.h"
#include "executor/proc/log.h"
#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_record.h"
#include "gateway/auditfile/line_fields.h"
#include "gateway/auditfile/log_reader.h"
#include "gateway/request.h"
#include "policy/base/arena.h"
#include "policy/base/bytes.h"

enum {
    ENDS_ARENA_MAX_BYTES = 256 << 20,
    LINE_ARENA_MAX_BYTES = 4 << 20,
};

/* A decision whose end was not met yet. */
struct open_line {
    struct open_line *next; /* while the log is read an older one: most requests end soon */
    char *request_id;
    size_t len;
    char text[]; /* the whole line */
};

/* The end of a workspace, a build or a Run. */
struct told_end {
    struct told_end *next;
    const char *id;
    int64_t time_ns;
};

struct audit_unended {
    struct arena arena; /* of the ends */
    struct open_line *open;
    struct told_end *workspaces;
    struct told_end *runs;
};

static void drop_open(struct audit_unended *u)
{
    while (u->open) {
        struct open_line *line = u->open;
        u->open = line->next;
        free(line);
    }
}

void audit_unended_free(struct audit_unended *u)
{
    if (u) {
        drop_open(u);
        arena_free(&u->arena);
        free(u);
    }
}

/* ---- reading ---- */

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for what the audit log left open");
}

/* Of a request that was carried out, and has a second line when it ended. */
static bool begins_request(const struct line_fields *f)
{
    const struct method *method = method_find(f->text[LINE_PATH]);
    return str_eq(f->text[LINE_EVENT], STR("DECISION")) &&
           str_eq(f->text[LINE_DECISION], STR("ALLOWED")) && f->text[LINE_CODE].len == 0 &&
           f->text[LINE_REQUEST_ID].len > 0 && method && method->audit != METHOD_AUDIT_READ;
}

static int add_open(struct audit_unended *u, struct str text, const struct line_fields *f,
                    struct error *err)
{
    struct str id = f->text[LINE_REQUEST_ID];
    struct open_line *line = malloc(sizeof *line + text.len + id.len + 1);
    if (!line) {
        return no_memory(err);
    }
    *line = (struct open_line){.next = u->open, .len = text.len};
    memcpy(line->text, text.ptr, text.len);
    line->request_id = line->text + text.len;
    memcpy(line->request_id, id.ptr, id.len);
    line->request_id[id.len] = '\0';
    u->open = line;
    return 0;
}

static void end_open(struct audit_unended *u, struct str request_id)
{
    for (struct open_line **at = &u->open; *at; at = &(*at)->next) {
        if (str_eq(str_from((*at)->request_id), request_id)) {
            struct open_line *line = *at;
            *at = line->next;
            free(line);
            return;
        }
    }
}

static int add_end(struct audit_unended *u, struct told_end **list, struct str id, int64_t time_ns,
                   struct error *err)
{
    struct told_end *end = arena_calloc(&u->arena, 1, sizeof *end);
    const char *copy = end ? arena_strndup(&u->arena, id.ptr ? id.ptr : "", id.len) : NULL;
    if (!copy) {
        return no_memory(err);
    }
    *end = (struct told_end){.next = *list, .id = copy, .time_ns = time_ns};
    *list = end;
    return 0;
}

static int take_line(struct audit_unended *u, struct str text, struct arena *scratch,
                     struct error *err)
{
    struct line_fields f;
    arena_reset(scratch);
    if (!line_fields_read(text, scratch, &f)) {
        return 0; /* what a crash left of a line */
    }
    struct str event = f.text[LINE_EVENT];
    if (begins_request(&f)) {
        return add_open(u, text, &f, err);
    }
    if (str_eq(event, STR("END"))) {
        end_open(u, f.text[LINE_REQUEST_ID]);
    } else if (str_eq(event, STR("WORKSPACE_END")) || str_eq(event, STR("BUILD_END"))) {
        return add_end(u, &u->workspaces, f.text[LINE_WORKSPACE_UID], f.time_ns, err);
    } else if (str_eq(event, STR("RUN_END"))) {
        return add_end(u, &u->runs, f.text[LINE_RUN_ID], f.time_ns, err);
    }
    return 0;
}

static int read_lines(struct audit_unended *u, int dir_fd, uint64_t since, struct error *err)
{
    struct log_reader *reader = NULL;
    struct log_line line;
    struct arena scratch;
    arena_init(&scratch, LINE_ARENA_MAX_BYTES);
    int rc = log_reader_open(dir_fd, since, &reader, err);
    rc = rc ? rc : 1;
    while (rc == 1 && (rc = log_reader_next(reader, &line, err)) == 1) {
        int taken = take_line(u, line.text, &scratch, err);
        rc = taken ? taken : 1;
    }
    log_reader_close(reader);
    arena_free(&scratch);
    return rc;
}

/* The oldest first, as their decisions are. */
static void turn_around(struct audit_unended *u)
{
    struct open_line *oldest = NULL;
    while (u->open) {
        struct open_line *line = u->open;
        u->open = line->next;
        line->next = oldest;
        oldest = line;
    }
    u->open = oldest;
}

int audit_unended_read(const char *dir, uint64_t since, struct audit_unended **ret,
                       struct error *err)
{
    struct audit_unended *u = calloc(1, sizeof *u);
    AUTO_FD int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!u || dir_fd == -1) {
        free(u);
        return error_set(err, STATUS_UNAVAILABLE, "the audit log in '%s' cannot be read", dir);
    }
    arena_init(&u->arena, ENDS_ARENA_MAX_BYTES);
    if (read_lines(u, dir_fd, since, err) < 0) {
        log_warning("audit log: which requests an earlier gateway left open is not told: %s",
                    err->text);
        drop_open(u);
    }
    turn_around(u);
    *ret = u;
    return 0;
}

/* ---- what it says ---- */

static bool has_end(const struct told_end *list, const char *id, int64_t since_ns)
{
    for (; list; list = list->next) {
        if (strcmp(list->id, id) == 0 && list->time_ns >= since_ns) {
            return true;
        }
    }
    return false;
}

bool audit_unended_has_workspace_end(const struct audit_unended *u, const char *workspace_uid,
                                     int64_t since_ns)
{
    return u && has_end(u->workspaces, workspace_uid, since_ns);
}

bool audit_unended_has_run_end(const struct audit_unended *u, const char *run_id)
{
    return u && has_end(u->runs, run_id, 0);
}

int audit_unended_tell_requests(const struct audit_unended *u, struct audit_log *log,
                                int64_t wall_ns, struct error *err)
{
    int rc = 0;
    for (const struct open_line *l = u->open; l && rc == 0; l = l->next) {
        struct buf record;
        buf_init(&record, AUDIT_LINE_MAX_BYTES);
        if (!audit_record_lost(str_make(l->text, l->len), wall_ns, &record)) {
            log_error(
                "audit log: the decision of request %s cannot be read, so its end is not told",
                l->request_id);
        } else if (audit_log_append(log, &record, NULL, NULL) < 0) {
            rc = error_set(err, STATUS_UNAVAILABLE,
                           "the audit log does not take the end of request %s", l->request_id);
        }
        buf_free(&record);
    }
    return rc;
}
