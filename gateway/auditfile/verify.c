#include "gateway/auditfile/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdarg.h>
#include <string.h>

#include "gateway/auditfile/checkpoint.h"
#include "gateway/auditfile/claims.h"
#include "gateway/auditfile/line_batch.h"
#include "gateway/auditfile/record_text.h"

struct verification {
    const struct verify_options *options;
    struct verify_report *report;
    struct chain_walk walk;
    struct claims claims;
    struct segment segment; /* that is being read */
    uint64_t line;          /* in it */
    bool anchor_is_met;
    bool is_out_of_memory;
    bool is_cut_short;           /* a file cannot be read */
    struct verify_report damage; /* the fault of the damage that the walk is in */
};

struct place {
    const char *file;
    uint64_t line;
    uint64_t sequence;
};

static struct place here(const struct verification *v, uint64_t sequence)
{
    return (struct place){v->segment.name, v->line, sequence};
}

static void set_fault(struct verify_report *r, enum verify_fault fault, struct place at,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The fault of the lowest sequence stays. */
static void set_fault(struct verify_report *r, enum verify_fault fault, struct place at,
                      const char *format, ...)
{
    if (r->fault != VERIFY_INTACT && r->sequence <= at.sequence) {
        return;
    }
    va_list ap;
    va_start(ap, format);
    r->fault = fault;
    r->line = at.line;
    r->sequence = at.sequence;
    (void)snprintf(r->file, sizeof r->file, "%s", at.file);
    (void)vsnprintf(r->text, sizeof r->text, format, ap);
    va_end(ap);
}

/* ---- one line ---- */

static void note_damage(struct verification *v, const struct line *line)
{
    uint64_t expected = v->walk.good.sequence + 1;
    struct place at = here(v, expected);
    v->damage = (struct verify_report){0};
    if (!line->is_ours) {
        set_fault(&v->damage, VERIFY_NO_LINE, at,
                  "this is no line of the log, and no gap record accounts for it");
    } else if (line->sequence != expected) {
        set_fault(&v->damage, VERIFY_BAD_SEQUENCE, at,
                  "the line has the number %" PRIu64 " where %" PRIu64 " is due", line->sequence,
                  expected);
    } else {
        set_fault(&v->damage, VERIFY_BROKEN_CHAIN, at,
                  "its prev is not the SHA-256 of line %" PRIu64
                  ": one of the two was changed, or lines between were replaced",
                  expected - 1);
    }
}

static void check_checkpoint(struct verification *v, const struct line *line)
{
    struct verify_report *r = v->report;
    struct place at = here(v, line->sequence);
    switch (checkpoint_verify(line, v->options->keys)) {
    case CHECKPOINT_GOOD:
        r->checkpoints++;
        r->last_checkpoint = v->walk.end;
        return;
    case CHECKPOINT_MALFORMED:
        set_fault(r, VERIFY_BAD_SIGNATURE, at, "the checkpoint cannot be read");
        return;
    case CHECKPOINT_UNKNOWN_KEY:
        set_fault(r, VERIFY_UNKNOWN_KEY, at,
                  "the checkpoint is signed with a key that is not among those given");
        return;
    case CHECKPOINT_FORGED:
        set_fault(r, VERIFY_BAD_SIGNATURE, at, "the checkpoint's signature is wrong");
        return;
    }
}

static void take_tombstone(struct verification *v, const struct line *line)
{
    struct arena arena;
    struct tombstone t;
    arena_init(&arena, RECORD_TEXT_ARENA_MAX_BYTES);
    if (!tombstone_read(line->text, &arena, &t)) {
        set_fault(v->report, VERIFY_BAD_RECORD, here(v, line->sequence),
                  "the tombstone cannot be read");
    } else if (!claims_add_tombstone(&v->claims, &t, line->sequence)) {
        v->is_out_of_memory = true;
    }
    arena_free(&arena);
}

static void take_gap(struct verification *v, const struct line *line)
{
    struct gap gap;
    if (!gap_read(line->text, &gap)) {
        set_fault(v->report, VERIFY_BAD_RECORD, here(v, line->sequence),
                  "the gap record cannot be read");
    } else if (gap.reason == GAP_TAIL_MISSING) {
        v->report->losses++;
    } else {
        v->report->gaps++;
        v->report->torn_lines += gap.lines;
    }
}

static void take_stub(struct verification *v)
{
    struct claims_stub stub = {.line = v->walk.end, .line_number = v->line};
    memcpy(stub.file, v->segment.name, sizeof stub.file);
    v->report->erased_lines++;
    v->is_out_of_memory = v->is_out_of_memory || !claims_add_stub(&v->claims, &stub);
}

static void take_fitting(struct verification *v, const struct line *line)
{
    switch (line->kind) {
    case LINE_RECORD:
        return;
    case LINE_CHECKPOINT:
        check_checkpoint(v, line);
        return;
    case LINE_TOMBSTONE:
        take_tombstone(v, line);
        return;
    case LINE_GAP:
        take_gap(v, line);
        return;
    case LINE_ERASED:
        take_stub(v);
        return;
    }
}

static void compare_anchor(struct verification *v)
{
    const struct chain *anchor = v->options->anchor;
    if (!anchor || anchor->sequence != v->walk.end.sequence) {
        return;
    }
    v->anchor_is_met = true;
    if (!chain_equal(anchor, &v->walk.end)) {
        set_fault(v->report, VERIFY_ANCHOR, here(v, anchor->sequence),
                  "the line is not the one that the anchor tells: the log was written anew");
    }
}

static void take_line(struct verification *v, const struct line *line)
{
    v->line++;
    v->report->lines++;
    v->report->bytes += line->text.len + 1;
    bool was_damaged = v->walk.damaged_lines > 0;
    enum chain_step step = chain_walk_line(&v->walk, line);
    if (step == CHAIN_DAMAGED) {
        if (!was_damaged) {
            note_damage(v, line);
        }
        return;
    }
    take_fitting(v, line);
    compare_anchor(v);
}

/* ---- files ---- */

/* Where a file goes on behind a hole, so does the chain: whether the hole may be is seen later. */
static void step_over_hole(struct verification *v, const struct line *first)
{
    if (!first->is_ours || first->sequence <= v->walk.end.sequence + 1 ||
        v->walk.damaged_lines > 0) {
        return;
    }
    struct claims_hole hole = {.before = v->walk.end, .last.sequence = first->sequence - 1};
    memcpy(hole.last.hash, first->prev, HASH_BYTES);
    memcpy(hole.file, v->segment.name, sizeof hole.file);
    v->is_out_of_memory = v->is_out_of_memory || !claims_add_hole(&v->claims, &hole);
    v->report->deleted_lines += hole.last.sequence - hole.before.sequence;
    v->walk.end = v->walk.good = hole.last;
    if (v->report->lines == 0) {
        v->report->first = hole.last;
    }
    compare_anchor(v);
}

static void take_batch(struct verification *v, const struct line_batch *batch)
{
    if (v->report->files == 0 || strcmp(v->segment.name, batch->segment.name) != 0) {
        v->segment = batch->segment;
        v->line = 0;
        v->report->files++;
        if (batch->count > 0) {
            step_over_hole(v, &batch->lines[0]);
        }
    }
    for (size_t i = 0; i < batch->count; i++) {
        take_line(v, &batch->lines[i]);
    }
    v->report->unended_bytes = batch->unended_bytes;
}

/* True when it must end. */
static bool tell_progress(const struct verification *v)
{
    struct verify_progress *p = v->options->progress;
    if (!p) {
        return false;
    }
    atomic_store(&p->lines, v->report->lines);
    atomic_store(&p->bytes, v->report->bytes);
    return atomic_load(&p->stop);
}

static int read_all(struct verification *v, struct line_batch_reader *reader, struct error *err)
{
    struct line_batch batch;
    int rc;
    while ((rc = line_batch_next(reader, &batch, err)) == 1) {
        take_batch(v, &batch);
        if (tell_progress(v)) {
            return error_set(err, STATUS_CANCELLED, "stopped");
        }
        if (v->is_out_of_memory || v->walk.has_failed) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
        }
    }
    if (rc == -STATUS_DATA_LOSS) {
        struct place at = {batch.segment.name, 0, v->walk.good.sequence + 1};
        set_fault(v->report, VERIFY_DAMAGED_FILE, at, "%s", err->text);
        v->is_cut_short = true;
        return 0;
    }
    return rc;
}

/* ---- the end ---- */

static void check_claims(struct verification *v)
{
    uint64_t signed_to = v->report->last_checkpoint.sequence;
    const struct claims_hole *hole = claims_open_hole(&v->claims, signed_to);
    const struct claims_stub *stub = claims_open_stub(&v->claims, signed_to);
    if (hole) {
        struct place at = {hole->file, 0, hole->before.sequence + 1};
        set_fault(v->report, VERIFY_MISSING_FILE, at,
                  "lines %" PRIu64 " to %" PRIu64 " are in no file, and no signed tombstone "
                  "accounts for exactly them",
                  hole->before.sequence + 1, hole->last.sequence);
    }
    if (stub) {
        struct place at = {stub->file, stub->line_number, stub->line.sequence};
        set_fault(v->report, VERIFY_ERASED_UNORDERED, at,
                  "the line was erased, and no signed tombstone accounts for it");
    }
}

static void check_anchor(struct verification *v)
{
    const struct chain *anchor = v->options->anchor;
    if (!anchor || v->anchor_is_met) {
        return;
    }
    struct place at = {v->segment.name, 0, anchor->sequence};
    if (anchor->sequence > v->walk.end.sequence) {
        at.sequence = v->walk.end.sequence + 1;
        set_fault(v->report, VERIFY_ANCHOR, at,
                  "the log ends at line %" PRIu64 ", and the anchor is line %" PRIu64
                  ": its end was cut off",
                  v->walk.end.sequence, anchor->sequence);
    } else {
        set_fault(v->report, VERIFY_ANCHOR, at,
                  "the anchor's line was deleted with its file, so it cannot be compared: give a "
                  "newer anchor");
    }
}

static void conclude(struct verification *v)
{
    struct verify_report *r = v->report;
    if (v->walk.damaged_lines > 0) {
        struct place at = {v->damage.file, v->damage.line, v->damage.sequence};
        set_fault(r, v->damage.fault, at, "%s", v->damage.text);
        v->is_cut_short = true;
    }
    if (!v->is_cut_short) { /* else the tombstones that come later are not known */
        check_claims(v);
        check_anchor(v);
    }
    r->last = v->walk.end;
    r->unsigned_lines = r->last.sequence - r->last_checkpoint.sequence;
    if (r->last_checkpoint.sequence < r->first.sequence) {
        r->unsigned_lines = r->last.sequence - r->first.sequence;
    }
}

int verify_log(int dir_fd, const struct verify_options *options, struct verify_report *report,
               struct error *err)
{
    const struct chain start = {0};
    struct verification v = {.options = options, .report = report};
    struct line_batch_reader *reader = NULL;
    *report = (struct verify_report){0};
    claims_init(&v.claims);
    if (!chain_walk_begin(&v.walk, &start)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    int rc = line_batch_reader_new(dir_fd, options->threads, &reader, err);
    rc = rc ? rc : read_all(&v, reader, err);
    if (rc == 0) {
        conclude(&v);
    }
    line_batch_reader_free(reader);
    claims_free(&v.claims);
    chain_walk_end(&v.walk);
    return rc;
}

const char *verify_fault_name(enum verify_fault fault)
{
    static const char *const names[] = {
        [VERIFY_INTACT] = "INTACT",
        [VERIFY_BROKEN_CHAIN] = "BROKEN_CHAIN",
        [VERIFY_BAD_SEQUENCE] = "BAD_SEQUENCE",
        [VERIFY_NO_LINE] = "NO_LINE",
        [VERIFY_BAD_SIGNATURE] = "BAD_SIGNATURE",
        [VERIFY_UNKNOWN_KEY] = "UNKNOWN_KEY",
        [VERIFY_BAD_RECORD] = "BAD_RECORD",
        [VERIFY_MISSING_FILE] = "MISSING_FILE",
        [VERIFY_ERASED_UNORDERED] = "ERASED_UNORDERED",
        [VERIFY_DAMAGED_FILE] = "DAMAGED_FILE",
        [VERIFY_ANCHOR] = "ANCHOR",
    };
    return names[fault];
}
