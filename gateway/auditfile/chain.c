#include "gateway/auditfile/chain.h"

#include <inttypes.h>
#include <stdio.h>

#include "gateway/audit/hex.h"

bool chain_equal(const struct chain *a, const struct chain *b)
{
    return a->sequence == b->sequence && memcmp(a->hash, b->hash, HASH_BYTES) == 0;
}

void chain_format(const struct chain *c, char ret[CHAIN_TEXT_SIZE])
{
    char hex[HASH_HEX_SIZE];
    hex_encode(c->hash, HASH_BYTES, hex);
    (void)snprintf(ret, CHAIN_TEXT_SIZE, "%" PRIu64 ":%s", c->sequence, hex);
}

bool chain_parse(struct str text, struct chain *ret)
{
    struct chain c = {0};
    size_t i = 0;
    for (; i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9'; i++) {
        if (__builtin_mul_overflow(c.sequence, 10U, &c.sequence) ||
            __builtin_add_overflow(c.sequence, (uint64_t)(text.ptr[i] - '0'), &c.sequence)) {
            return false;
        }
    }
    if (i == 0 || i >= text.len || text.ptr[i] != ':' ||
        !hash_from_hex(str_make(text.ptr + i + 1, text.len - i - 1), c.hash)) {
        return false;
    }
    *ret = c;
    return true;
}

bool chain_walk_begin(struct chain_walk *w, const struct chain *start)
{
    *w = (struct chain_walk){.end = *start, .good = *start, .damage = hasher_new()};
    return w->damage;
}

void chain_walk_end(struct chain_walk *w)
{
    hasher_free(w->damage);
    w->damage = NULL;
}

static void count_damage(struct chain_walk *w, const struct line *line)
{
    bool ok = w->damaged_lines > 0 || hasher_begin(w->damage);
    ok = ok && hasher_add(w->damage, line->text) && hasher_add(w->damage, STR("\n"));
    w->has_failed = w->has_failed || !ok;
    w->damaged_lines++;
    w->damaged_bytes += line->text.len + 1;
}

/* Whether this line is the record of the damage before it. What it does not tell of stays damage.
 */
static bool closes(struct chain_walk *w, const struct line *line)
{
    struct gap told;
    struct gap found;
    if (line->kind != LINE_GAP || !gap_read(line->text, &told) || told.reason != GAP_TORN ||
        told.lines != w->damaged_lines) {
        return false;
    }
    if (!told.has_extent) {
        return true; /* prev is the hash of that one line */
    }
    return told.bytes == w->damaged_bytes && chain_walk_gap(w, &found) &&
           memcmp(told.sha256, found.sha256, HASH_BYTES) == 0;
}

enum chain_step chain_walk_line(struct chain_walk *w, const struct line *line)
{
    bool follows = line->is_ours && line->sequence == w->end.sequence + 1 &&
                   memcmp(line->prev, w->end.hash, HASH_BYTES) == 0;
    bool had_damage = w->damaged_lines > 0;
    bool fits = follows && (!had_damage || closes(w, line));
    if (!fits) {
        count_damage(w, line);
    }
    w->end.sequence++;
    memcpy(w->end.hash, line->hash, HASH_BYTES);
    if (!fits) {
        return CHAIN_DAMAGED;
    }
    w->good = w->end;
    w->damaged_lines = 0;
    w->damaged_bytes = 0;
    return had_damage ? CHAIN_CLOSES : CHAIN_FITS;
}

bool chain_walk_gap(struct chain_walk *w, struct gap *ret)
{
    *ret = (struct gap){.reason = GAP_TORN,
                        .has_extent = true,
                        .lines = w->damaged_lines,
                        .bytes = w->damaged_bytes};
    bool ok = hasher_peek(w->damage, ret->sha256);
    w->has_failed = w->has_failed || !ok;
    return ok;
}
