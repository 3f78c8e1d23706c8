#include "gateway/auditfile/line_batch.h"

#include <stdlib.h>

#include "gateway/auditfile/crew.h"
#include "gateway/auditfile/log_reader.h"
#include "gateway/auditfile/segment_reader.h"

enum { BLOCKS_PER_MEMBER = 4, BLOCKS_MAX = BLOCKS_PER_MEMBER * CREW_MEMBERS_MAX };

struct slot {
    struct segment segment;
    struct segment_block block;
    struct buf plain;
    struct buf lines; /* of struct line */
    size_t unended_bytes;
    int status;
    struct error err;
};

struct line_batch_reader {
    struct log_reader *log;
    struct crew *crew;
    struct hasher *hashers[CREW_MEMBERS_MAX];
    struct slot *slots;
    size_t slot_max;
    size_t slot_count; /* filled */
    size_t next;       /* to be given */
    int status;        /* of the reading behind them: 1, 0 or negative */
    struct segment failed;
    struct error err;
};

static bool init_slots(struct line_batch_reader *r)
{
    r->slot_max = BLOCKS_PER_MEMBER * crew_members(r->crew);
    r->slots = calloc(r->slot_max, sizeof *r->slots);
    for (size_t i = 0; r->slots && i < r->slot_max; i++) {
        segment_block_init(&r->slots[i].block);
        buf_init(&r->slots[i].plain, SEGMENT_LINE_MAX_BYTES);
        buf_init(&r->slots[i].lines, SIZE_MAX / 2);
    }
    for (unsigned i = 0; i < crew_members(r->crew); i++) {
        r->hashers[i] = hasher_new();
        if (!r->hashers[i]) {
            return false;
        }
    }
    return r->slots;
}

int line_batch_reader_new(int dir_fd, unsigned threads, struct line_batch_reader **ret,
                          struct error *err)
{
    struct line_batch_reader *r = calloc(1, sizeof *r);
    if (!r) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    r->status = 1;
    r->crew = crew_new(threads);
    if (!r->crew || !init_slots(r)) {
        line_batch_reader_free(r);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (log_reader_open(dir_fd, 0, &r->log, err) < 0) {
        line_batch_reader_free(r);
        return -err->status;
    }
    *ret = r;
    return 0;
}

void line_batch_reader_free(struct line_batch_reader *r)
{
    if (!r) {
        return;
    }
    for (size_t i = 0; r->slots && i < r->slot_max; i++) {
        segment_block_free(&r->slots[i].block);
        buf_free(&r->slots[i].plain);
        buf_free(&r->slots[i].lines);
    }
    for (unsigned i = 0; i < CREW_MEMBERS_MAX; i++) {
        hasher_free(r->hashers[i]);
    }
    free(r->slots);
    crew_free(r->crew);
    log_reader_close(r->log);
    free(r);
}

/* The end of the active file without a newline is left out. */
static void drop_unended(struct slot *s, struct str *text)
{
    size_t ended = text->len;
    while (s->segment.is_active && s->block.is_last_torn && ended > 0 &&
           text->ptr[ended - 1] != '\n') {
        ended--;
    }
    s->unended_bytes = text->len - ended;
    text->len = ended;
}

static void look_at_slot(void *arg, size_t i, unsigned member)
{
    struct line_batch_reader *r = arg;
    struct slot *s = &r->slots[i];
    struct str text;
    struct str one;
    buf_clear(&s->lines);
    s->status = segment_block_text(&s->block, &s->plain, &text, &s->err);
    if (s->status < 0) {
        return;
    }
    drop_unended(s, &text);
    while (s->status == 0 && line_take(&text, &one)) {
        struct line line;
        bool ok = line_look(one, r->hashers[member], &line);
        buf_add(&s->lines, &line, sizeof line);
        if (!ok || s->lines.failed) {
            s->status = error_set(&s->err, STATUS_RESOURCE_EXHAUSTED, "out of memory for lines");
        }
    }
}

static void fill(struct line_batch_reader *r)
{
    r->slot_count = 0;
    r->next = 0;
    while (r->status == 1 && r->slot_count < r->slot_max) {
        struct slot *s = &r->slots[r->slot_count];
        struct log_block block = {.block = &s->block};
        r->status = log_reader_next_block(r->log, &block, &r->err);
        s->segment = block.segment;
        r->failed = block.segment;
        r->slot_count += r->status == 1;
    }
    crew_run(r->crew, r->slot_count, look_at_slot, r);
}

int line_batch_next(struct line_batch_reader *r, struct line_batch *ret, struct error *err)
{
    if (r->next == r->slot_count && r->status == 1) {
        fill(r);
    }
    if (r->next == r->slot_count) {
        *ret = (struct line_batch){.segment = r->failed};
        if (r->status < 0) {
            *err = r->err;
        }
        return r->status;
    }
    const struct slot *s = &r->slots[r->next++];
    *ret = (struct line_batch){.segment = s->segment,
                               .lines = (const struct line *)(const void *)s->lines.ptr,
                               .count = s->lines.len / sizeof(struct line),
                               .unended_bytes = s->unended_bytes};
    if (s->status < 0) {
        *err = s->err;
        return s->status;
    }
    return 1;
}
