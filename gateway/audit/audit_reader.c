#include "gateway/audit/audit_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "executor/proc/fd.h"
#include "gateway/auditfile/segment_reader.h"
#include "gateway/rpc/codec_scalar.h"
#include "gateway/text/json_reader.h"

enum { LINE_ARENA_MAX_BYTES = 16 << 20 };

/* The last bytes_max of a file's lines, or a little more; the first line may be cut. */
static int load_end(int dir_fd, const struct segment *segment, size_t bytes_max, struct buf *ret,
                    struct error *err)
{
    struct segment_reader *reader = NULL;
    struct segment_block block;
    struct buf plain;
    struct str text;
    int rc = segment_reader_open(dir_fd, segment, &reader, err);
    if (rc) {
        return rc;
    }
    segment_block_init(&block);
    buf_init(&plain, SEGMENT_LINE_MAX_BYTES);
    segment_reader_skip(reader, bytes_max);
    while ((rc = segment_reader_next(reader, &block, err)) == 1) {
        rc = segment_block_text(&block, &plain, &text, err);
        if (ret->len > bytes_max * 2) {
            buf_consume(ret, ret->len - bytes_max);
        }
        buf_add_str(ret, text);
        if (rc < 0 || ret->failed) {
            rc = rc < 0 ? rc : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
            break;
        }
    }
    segment_block_free(&block);
    buf_free(&plain);
    segment_reader_close(reader);
    return rc;
}

/* Puts the file's end in front of the text. */
static int prepend_segment(int dir_fd, const struct segment *segment, struct buf *text,
                           struct error *err)
{
    struct buf part;
    buf_init(&part, SEGMENT_LINE_MAX_BYTES + 4UL * AUDIT_READ_BYTES_MAX);
    int rc = load_end(dir_fd, segment, AUDIT_READ_BYTES_MAX - text->len, &part, err);
    buf_add_str(&part, buf_str(text));
    if (rc == 0 && part.failed) {
        rc = error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for the audit log");
    }
    buf_free(text);
    *text = part;
    return rc;
}

/* The end of the log over all its files, newest first, from the beginning of a line on. */
static int read_files(int dir_fd, struct arena *arena, struct buf *text, struct error *err)
{
    struct segment *list;
    size_t count;
    int rc = segment_list(dir_fd, arena, &list, &count, err);
    while (rc == 0 && count > 0 && text->len < AUDIT_READ_BYTES_MAX) {
        rc = prepend_segment(dir_fd, &list[--count], text, err);
    }
    return rc;
}

static int read_tail(const char *dir, struct arena *arena, struct str *ret, struct error *err)
{
    struct buf text;
    AUTO_FD int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "cannot read the audit log");
    }
    buf_init(&text, SEGMENT_LINE_MAX_BYTES + 4UL * AUDIT_READ_BYTES_MAX);
    int rc = read_files(dir_fd, arena, &text, err);
    size_t cut = text.len > AUDIT_READ_BYTES_MAX ? text.len - AUDIT_READ_BYTES_MAX : 0;
    const uint8_t *newline = cut ? memchr(text.ptr + cut, '\n', text.len - cut) : NULL;
    cut = newline ? (size_t)(newline + 1 - text.ptr) : cut;
    char *copy = rc ? NULL : arena_strndup(arena, (const char *)text.ptr + cut, text.len - cut);
    *ret = str_make(copy, copy ? text.len - cut : 0);
    buf_free(&text);
    return rc || copy
               ? rc
               : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for the audit log");
}

/* The last whole line of the text, which is cut off it; false when there is none. */
static bool take_last_line(struct str *text, struct str *ret)
{
    while (text->len > 0 && text->ptr[text->len - 1] != '\n') {
        text->len--; /* not finished yet */
    }
    if (text->len == 0) {
        return false;
    }
    size_t end = text->len - 1;
    size_t begin = end;
    while (begin > 0 && text->ptr[begin - 1] != '\n') {
        begin--;
    }
    *ret = str_make(text->ptr + begin, end - begin);
    text->len = begin;
    return true;
}

static const char *text_at(const struct tree_node *map, const char *key, struct arena *arena)
{
    const struct tree_node *n = tree_member(map, key);
    char *copy =
        n && n->type == TREE_STRING ? arena_strndup(arena, n->text.ptr, n->text.len) : NULL;
    return copy ? copy : "";
}

static bool truth_at(const struct tree_node *map, const char *key)
{
    const struct tree_node *n = tree_member(map, key);
    return n && n->type == TREE_BOOL && str_is(n->text, "true");
}

static uint64_t number_at(const struct tree_node *map, const char *key)
{
    const struct tree_node *n = tree_member(map, key);
    return n && n->type == TREE_NUMBER ? strtoull(n->text.ptr, NULL, 10) : 0;
}

static void read_hash(const char *hex, uint8_t ret[32])
{
    for (size_t i = 0; i < 32 && strlen(hex) == 64; i++) {
        char byte[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        ret[i] = (uint8_t)strtoul(byte, NULL, 16);
    }
}

static void read_run(const struct tree_node *run, struct arena *arena, struct audit_line *ret)
{
    const struct tree_node *names = tree_member(run, "envNames");
    ret->has_run = run && run->type == TREE_MAP;
    ret->working_dir = text_at(run, "workingDir", arena);
    read_hash(text_at(run, "commandSHA256", arena), ret->command_sha256);
    ret->command_bytes = (size_t)number_at(run, "commandBytes");
    ret->as_root = truth_at(run, "asRoot");
    ret->has_stdin = truth_at(run, "hasStdin");
    ret->is_terminal = truth_at(run, "isTerminal");
    const char **list = arena_calloc(arena, names ? names->count : 0, sizeof *list);
    for (const struct tree_node *n = names && list ? names->first : NULL; n; n = n->next) {
        const char *name = arena_strndup(arena, n->text.ptr, n->text.len);
        list[ret->env_name_count++] = name ? name : "";
    }
    ret->env_names = list;
}

static void read_time(struct audit_line *ret)
{
    int64_t seconds;
    int32_t nanos;
    int64_t seconds_max = INT64_MAX / 1000000000 - 1;
    if (scalar_read_timestamp(str_from(ret->started_at_text), &seconds, &nanos) && seconds >= 0 &&
        seconds < seconds_max) {
        ret->started_at_ns = seconds * 1000000000 + nanos;
    }
}

bool audit_parse_decision(struct str text, struct arena *arena, struct audit_line *ret)
{
    const struct tree_node *line;
    struct arena scratch;
    struct error ignored = {0};
    arena_init(&scratch, LINE_ARENA_MAX_BYTES);
    *ret = (struct audit_line){0};
    bool is_read = json_read(text, &scratch, &line, &ignored) == 0;
    const struct tree_node *more = is_read ? tree_member(line, "cordium") : NULL;
    const struct tree_node *event = tree_member(more, "event");
    bool is_decision = event && str_is(event->text, "DECISION");
    if (is_decision) {
        const struct tree_node *entry = tree_member(line, "entry");
        const struct tree_node *common = tree_member(entry, "common");
        const struct tree_node *grpc = tree_member(tree_member(entry, "info"), "grpc");
        const struct tree_node *user = tree_member(common, "userRef");
        const struct tree_node *status = tree_member(common, "status");
        ret->id = text_at(tree_member(line, "metadata"), "id", arena);
        ret->started_at_text = text_at(common, "startedAt", arena);
        ret->path = text_at(grpc, "path", arena);
        ret->reason = text_at(tree_member(common, "reason"), "type", arena);
        ret->user_name = text_at(user, "name", arena);
        ret->user_uid = text_at(user, "uid", arena);
        ret->session_uid = text_at(tree_member(common, "sessionRef"), "uid", arena);
        ret->space_uid = text_at(tree_member(more, "spaceRef"), "uid", arena);
        ret->template_uid = text_at(tree_member(more, "templateRef"), "uid", arena);
        ret->workspace_uid = text_at(tree_member(more, "workspaceRef"), "uid", arena);
        ret->peer = text_at(more, "peer", arena);
        ret->is_allowed = status && str_is(status->text, "ALLOWED");
        ret->in_workspace = truth_at(more, "inWorkspace");
        ret->policy_set_version = number_at(more, "policySetVersion");
        read_run(tree_member(more, "run"), arena, ret);
        read_time(ret);
    }
    arena_free(&scratch);
    return is_decision;
}

int audit_read_decisions(const char *audit_dir, size_t count_max, struct arena *arena,
                         struct audit_line **ret, size_t *ret_count, struct error *err)
{
    struct str text;
    struct str one;
    struct arena file;
    size_t count = 0;
    count_max = count_max < AUDIT_READ_LINES_MAX ? count_max : AUDIT_READ_LINES_MAX;
    struct audit_line *lines = arena_calloc(arena, count_max, sizeof *lines);
    if (!lines) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for the audit log");
    }
    arena_init(&file, AUDIT_READ_BYTES_MAX + (1 << 20));
    int rc = read_tail(audit_dir, &file, &text, err);
    while (rc == 0 && count < count_max && take_last_line(&text, &one)) {
        count += audit_parse_decision(one, arena, &lines[count]);
    }
    arena_free(&file);
    for (size_t i = 0; i < count / 2; i++) {
        struct audit_line swap = lines[i];
        lines[i] = lines[count - 1 - i];
        lines[count - 1 - i] = swap;
    }
    *ret = lines;
    *ret_count = count;
    return rc;
}

int audit_read_decision(const char *audit_dir, const char *id, struct arena *arena,
                        struct audit_line *ret, struct error *err)
{
    struct str text;
    struct str one;
    struct arena file;
    bool found = false;
    arena_init(&file, AUDIT_READ_BYTES_MAX + (1 << 20));
    int rc = read_tail(audit_dir, &file, &text, err);
    size_t id_len = strlen(id);
    while (rc == 0 && !found && take_last_line(&text, &one)) {
        /* A cheap look before the parse: the log may be long. */
        found = id_len > 0 && memmem(one.ptr, one.len, id, id_len) &&
                audit_parse_decision(one, arena, ret) && cstr_eq(ret->id, id);
    }
    arena_free(&file);
    return rc || found ? rc
                       : error_set(err, STATUS_NOT_FOUND,
                                   "No decision with the id '%.100s' among the last %d MiB of the "
                                   "audit log; lines of kind END have none of their own",
                                   id, AUDIT_READ_BYTES_MAX >> 20);
}
