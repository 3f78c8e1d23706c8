#include "gateway/authorize/text_diff.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* One line of the edit script. */
struct edit {
    char sign; /* ' ', '-', '+' */
    struct str line;
};

struct lines {
    struct str *items;
    size_t count;
};

static bool split_lines(struct str text, struct lines *ret)
{
    size_t count = 0;
    for (size_t i = 0; i < text.len; i++) {
        count += text.ptr[i] == '\n';
    }
    count += text.len > 0 && text.ptr[text.len - 1] != '\n';
    ret->items = calloc(count ? count : 1, sizeof *ret->items);
    ret->count = count;
    if (!ret->items) {
        return false;
    }
    const char *p = text.ptr;
    for (size_t i = 0; i < count; i++) {
        const char *end = memchr(p, '\n', text.len - (size_t)(p - text.ptr));
        size_t len = end ? (size_t)(end - p) : text.len - (size_t)(p - text.ptr);
        ret->items[i] = str_make(p, len);
        p += len + 1;
    }
    return true;
}

/* lengths[i * (b + 1) + j]: longest common subsequence of a from i and b from j. */
static uint16_t *common_lengths(const struct lines *a, const struct lines *b)
{
    if (a->count > TEXT_DIFF_LINES_MAX || b->count > TEXT_DIFF_LINES_MAX) {
        return NULL;
    }
    size_t width = b->count + 1;
    uint16_t *lengths = calloc((a->count + 1) * width, sizeof *lengths);
    for (size_t i = a->count; lengths && i-- > 0;) {
        for (size_t j = b->count; j-- > 0;) {
            uint16_t down = lengths[(i + 1) * width + j];
            uint16_t right = lengths[i * width + j + 1];
            lengths[i * width + j] = str_eq(a->items[i], b->items[j])
                                         ? (uint16_t)(lengths[(i + 1) * width + j + 1] + 1)
                                     : down > right ? down
                                                    : right;
        }
    }
    return lengths;
}

/* Without a table (texts too long) everything goes and everything comes. */
static size_t make_script(const struct lines *a, const struct lines *b, struct edit *script)
{
    uint16_t *lengths = common_lengths(a, b);
    size_t width = b->count + 1;
    size_t n = 0;
    size_t i = 0;
    size_t j = 0;
    while (i < a->count || j < b->count) {
        if (lengths && i < a->count && j < b->count && str_eq(a->items[i], b->items[j])) {
            script[n++] = (struct edit){' ', a->items[i++]};
            j++;
        } else if (i < a->count && (j == b->count || !lengths ||
                                    lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) {
            script[n++] = (struct edit){'-', a->items[i++]};
        } else {
            script[n++] = (struct edit){'+', b->items[j++]};
        }
    }
    free(lengths);
    return n;
}

/* The end of the hunk that begins at `from`: changes closer than two contexts share one. */
static size_t hunk_end(const struct edit *script, size_t count, size_t from)
{
    size_t last_change = from;
    for (size_t i = from; i < count && i <= last_change + 2 * TEXT_DIFF_CONTEXT; i++) {
        if (script[i].sign != ' ') {
            last_change = i;
        }
    }
    size_t end = last_change + 1 + TEXT_DIFF_CONTEXT;
    return end < count ? end : count;
}

static void put_hunk(const struct edit *script, size_t from, size_t to, size_t line_a,
                     size_t line_b, struct buf *out)
{
    size_t count_a = 0;
    size_t count_b = 0;
    for (size_t i = from; i < to; i++) {
        count_a += script[i].sign != '+';
        count_b += script[i].sign != '-';
    }
    buf_printf(out, "@@ -%zu,%zu +%zu,%zu @@\n", count_a ? line_a + 1 : line_a, count_a,
               count_b ? line_b + 1 : line_b, count_b);
    for (size_t i = from; i < to; i++) {
        buf_add_u8(out, (uint8_t)script[i].sign);
        buf_add_str(out, script[i].line);
        buf_add_u8(out, '\n');
    }
}

static void put_hunks(const struct edit *script, size_t count, struct buf *out)
{
    size_t line_a = 0; /* lines before script[done] */
    size_t line_b = 0;
    size_t done = 0;
    for (size_t i = 0; i < count; i++) {
        if (script[i].sign == ' ') {
            continue;
        }
        size_t from = i - done > TEXT_DIFF_CONTEXT ? i - TEXT_DIFF_CONTEXT : done;
        line_a += from - done; /* what is skipped is common */
        line_b += from - done;
        size_t to = hunk_end(script, count, i);
        put_hunk(script, from, to, line_a, line_b, out);
        for (size_t k = from; k < to; k++) {
            line_a += script[k].sign != '+';
            line_b += script[k].sign != '-';
        }
        done = to;
        i = to - 1;
    }
}

void text_diff(const char *name, struct str before, struct str after, struct buf *out)
{
    struct lines a = {0};
    struct lines b = {0};
    if (str_eq(before, after)) {
        return;
    }
    struct edit *script = NULL;
    if (split_lines(before, &a) && split_lines(after, &b)) {
        script = calloc(a.count + b.count + 1, sizeof *script);
    }
    buf_printf(out, "--- %s\n+++ %s\n", before.len ? name : "/dev/null",
               after.len ? name : "/dev/null");
    if (script) {
        put_hunks(script, make_script(&a, &b, script), out);
    } else {
        out->failed = true;
    }
    free(script);
    free(a.items);
    free(b.items);
}
