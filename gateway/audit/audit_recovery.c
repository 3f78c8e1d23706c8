#include "gateway/audit/audit_recovery.h"

#include <inttypes.h>
#include <string.h>

#include "gateway/auditfile/log_reader.h"
#include "gateway/auditfile/segment_reader.h"

enum { LIST_ARENA_MAX_BYTES = 256 << 20, DAY_SECONDS = 86400 };

struct recovery {
    const struct chain *anchor;
    struct chain_walk walk;
    struct hasher *hasher;
    bool is_at_begin;        /* of a file: its next line is the first that is looked at */
    bool is_active;          /* the file is the active one */
    uint64_t first_sequence; /* of the active file; 0 until a line was seen */
    uint64_t checkpoint_sequence;
    bool anchor_is_met;
    bool is_foreign; /* the damage does not begin as a line of ours does */
    bool is_unended; /* the last line has no newline */
};

static bool is_prefix_of_either(struct str a, struct str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    return str_eq(str_make(a.ptr, n), str_make(b.ptr, n));
}

/* What a crash leaves is the beginning of a line of ours, or zeroes where its pages never came. */
static bool may_be_torn(struct str text)
{
    return is_prefix_of_either(str_make(text.ptr, strnlen(text.ptr, text.len)),
                               STR("{\"sequence\":"));
}

static void meet_anchor(struct recovery *r)
{
    if (r->anchor && chain_equal(r->anchor, &r->walk.end)) {
        r->anchor_is_met = true;
    }
}

/* Where lines are missing in front of a file, its first line says itself what it follows: that they
 * may be missing is for verification to find; what matters here is that the log goes on from one
 * end. False for a line from which nothing can be told. */
static bool begin_file(struct recovery *r, const struct line *line)
{
    if (line->is_ours && line->sequence > r->walk.end.sequence + 1 && r->walk.damaged_lines == 0) {
        r->walk.end.sequence = line->sequence - 1;
        memcpy(r->walk.end.hash, line->prev, HASH_BYTES);
        r->walk.good = r->walk.end;
        meet_anchor(r);
    }
    if (!line->is_ours && !r->is_active) {
        return false;
    }
    r->first_sequence = r->is_active ? r->walk.end.sequence + 1 : 0;
    r->is_at_begin = false;
    return true;
}

static int take_line(struct recovery *r, struct str text, struct error *err)
{
    struct line line;
    bool was_damaged = r->walk.damaged_lines > 0;
    if (!line_look(text, r->hasher, &line)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "a line cannot be hashed");
    }
    if (r->is_at_begin && !begin_file(r, &line)) {
        return 0;
    }
    if (chain_walk_line(&r->walk, &line) == CHAIN_DAMAGED) {
        r->is_foreign = was_damaged ? r->is_foreign : !may_be_torn(text);
    } else {
        meet_anchor(r);
        r->checkpoint_sequence =
            line.kind == LINE_CHECKPOINT ? line.sequence : r->checkpoint_sequence;
    }
    return r->walk.has_failed ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "a line cannot be hashed")
                              : 0;
}

static int walk_blocks(struct recovery *r, struct segment_reader *reader, struct error *err)
{
    struct segment_block block;
    struct buf plain;
    struct str text;
    struct str one;
    int rc;
    segment_block_init(&block);
    buf_init(&plain, SEGMENT_LINE_MAX_BYTES);
    while ((rc = segment_reader_next(reader, &block, err)) == 1) {
        r->is_unended = block.is_last_torn;
        rc = segment_block_text(&block, &plain, &text, err);
        while (rc == 0 && line_take(&text, &one)) {
            rc = take_line(r, one, err);
        }
        if (rc) {
            break;
        }
    }
    segment_block_free(&block);
    buf_free(&plain);
    return rc;
}

/* The whole active file; of a finished one its end, from which the active one goes on. */
static int walk_segment(struct recovery *r, int dir_fd, const struct segment *segment,
                        struct error *err)
{
    struct segment_reader *reader = NULL;
    r->is_at_begin = true;
    r->is_active = segment->is_active;
    r->is_unended = false;
    int rc = segment_reader_open(dir_fd, segment, &reader, err);
    if (rc == 0 && !segment->is_active) {
        rc = segment_reader_seek(reader, UINT64_MAX, err);
    }
    rc = rc ? rc : walk_blocks(r, reader, err);
    segment_reader_close(reader);
    if (rc && !segment->is_active && rc != -STATUS_RESOURCE_EXHAUSTED) {
        return error_wrap(err,
                          "its newest finished file cannot be read: put '%s' back from a copy, or "
                          "move it away, which verification will tell of",
                          segment->name);
    }
    return rc ? error_wrap(err, "%s", segment->name) : 0;
}

static int walk_end(struct recovery *r, int dir_fd, struct error *err)
{
    struct arena arena;
    struct segment *list = NULL;
    size_t count = 0;
    arena_init(&arena, LIST_ARENA_MAX_BYTES);
    int rc = segment_list(dir_fd, &arena, &list, &count, err);
    /* The active file is there: it is open. */
    for (size_t i = count > 2 ? count - 2 : 0; rc == 0 && i < count; i++) {
        rc = walk_segment(r, dir_fd, &list[i], err);
    }
    arena_free(&arena);
    return rc;
}

/* The anchor may be of a file before, when the newer ones were not noted before a power cut. */
static int find_anchor(struct recovery *r, int dir_fd, struct error *err)
{
    struct log_reader *reader = NULL;
    struct log_line text;
    struct line line = {0};
    if (!r->anchor || r->anchor_is_met || r->anchor->sequence > r->walk.good.sequence) {
        return 0;
    }
    int rc = log_reader_open(dir_fd, r->anchor->sequence, &reader, err);
    rc = rc ? rc : log_reader_next(reader, &text, err);
    if (rc == 1 && line_look(text.text, r->hasher, &line) && line.is_ours) {
        r->anchor_is_met = line.sequence == r->anchor->sequence &&
                           memcmp(line.hash, r->anchor->hash, HASH_BYTES) == 0;
    }
    log_reader_close(reader);
    return rc < 0 ? rc : 0;
}

static int refuse_loss(const struct recovery *r, struct error *err)
{
    char anchor[CHAIN_TEXT_SIZE];
    chain_format(r->anchor, anchor);
    return error_set(
        err, STATUS_DATA_LOSS,
        "it was at line %s and does not have that line: it ends at %" PRIu64
        ", or was changed. Put the missing files back from a copy. If they are lost, "
        "`cordium-gateway audit accept-loss` lets the gateway go on; the log will tell "
        "of it",
        anchor, r->walk.good.sequence);
}

static int judge(struct recovery *r, bool accept_loss, struct audit_recovery *ret,
                 struct error *err)
{
    if (r->walk.damaged_lines > 0 && r->is_foreign) {
        return error_set(err, STATUS_DATA_LOSS,
                         "what follows line %" PRIu64
                         " is not one of ours, nor what a crash leaves; "
                         "move the file away and look at who wrote to it",
                         r->walk.good.sequence);
    }
    ret->is_lost = r->anchor && !r->anchor_is_met;
    if (ret->is_lost && !accept_loss) {
        return refuse_loss(r, err);
    }
    if (ret->is_lost) {
        ret->lost =
            (struct gap){.reason = GAP_TAIL_MISSING, .expected_sequence = r->anchor->sequence};
        memcpy(ret->lost.expected_hash, r->anchor->hash, HASH_BYTES);
    }
    ret->is_torn = r->walk.damaged_lines > 0;
    if (ret->is_torn && !chain_walk_gap(&r->walk, &ret->torn)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "the damage cannot be hashed");
    }
    return 0;
}

/* Ends the last line, and tells where the log is. */
static int settle(const struct recovery *r, struct audit_file *f, struct audit_recovery *ret,
                  struct error *err)
{
    if (r->is_unended) {
        int rc = audit_file_append(f, "\n", 1);
        if (rc) {
            return error_set_errno(err, STATUS_UNAVAILABLE, rc, "end the torn last line");
        }
    }
    ret->end = (struct audit_position){
        .chain = r->walk.end,
        .checkpoint_sequence = r->checkpoint_sequence,
        .file_first_sequence = r->first_sequence ? r->first_sequence : r->walk.end.sequence + 1,
        .file_bytes = (uint64_t)f->bytes,
        .file_day = f->modified_seconds / DAY_SECONDS,
    };
    return 0;
}

int audit_recovery_run(struct audit_file *f, const struct chain *anchor, bool accept_loss,
                       struct audit_recovery *ret, struct error *err)
{
    const struct chain start = {0};
    struct recovery r = {.anchor = anchor, .hasher = hasher_new()};
    *ret = (struct audit_recovery){0};
    bool ok = chain_walk_begin(&r.walk, &start) && r.hasher;
    int rc = ok ? walk_end(&r, f->dir_fd, err)
                : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    rc = rc ? rc : find_anchor(&r, f->dir_fd, err);
    rc = rc ? rc : judge(&r, accept_loss, ret, err);
    rc = rc ? rc : settle(&r, f, ret, err);
    chain_walk_end(&r.walk);
    hasher_free(r.hasher);
    return rc;
}
