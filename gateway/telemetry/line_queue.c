#include "gateway/telemetry/line_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROOM_FIRST = 64,          /* power of two, as all sizes are */
    ROOM_MAX = 1 << 20,       /* lines: of 1 KiB they are a gigabyte */
    LINE_OVERHEAD_BYTES = 48, /* of a line beside its text: the ring's place, malloc's head */
};

struct line_queue {
    struct str *ring; /* texts are malloc'ed */
    size_t room;
    size_t first;
    size_t length;
    size_t ready;
    size_t bytes;
    size_t bytes_max;
    bool is_full; /* refused a line, and none has left since: a shorter one must not pass it */
};

struct line_queue *line_queue_new(size_t bytes_max)
{
    struct line_queue *q = calloc(1, sizeof *q);
    if (q) {
        q->bytes_max = bytes_max;
    }
    return q;
}

static struct str *place(const struct line_queue *q, size_t i)
{
    return &q->ring[(q->first + i) & (q->room - 1)];
}

void line_queue_free(struct line_queue *q)
{
    if (!q) {
        return;
    }
    line_queue_release(q);
    line_queue_drop(q, q->length);
    free(q->ring);
    free(q);
}

static bool grow(struct line_queue *q)
{
    size_t room = q->room ? q->room * 2 : ROOM_FIRST;
    struct str *ring = room <= ROOM_MAX ? malloc(room * sizeof *ring) : NULL;
    if (!ring) {
        return false;
    }
    for (size_t i = 0; i < q->length; i++) {
        ring[i] = *place(q, i);
    }
    free(q->ring);
    q->ring = ring;
    q->room = room;
    q->first = 0;
    return true;
}

static bool push(struct line_queue *q, struct str line)
{
    size_t bytes = line.len + LINE_OVERHEAD_BYTES;
    if (bytes > q->bytes_max - q->bytes || (q->length == q->room && !grow(q))) {
        return false;
    }
    char *text = malloc(line.len + 1);
    if (!text) {
        return false;
    }
    memcpy(text, line.ptr, line.len);
    text[line.len] = '\0';
    *place(q, q->length++) = str_make(text, line.len);
    q->bytes += bytes;
    return true;
}

bool line_queue_push(struct line_queue *q, struct str line)
{
    q->is_full = q->is_full || !push(q, line);
    return !q->is_full;
}

void line_queue_release(struct line_queue *q)
{
    q->ready = q->length;
}

size_t line_queue_ready(const struct line_queue *q)
{
    return q->ready;
}

size_t line_queue_length(const struct line_queue *q)
{
    return q->length;
}

size_t line_queue_peek(const struct line_queue *q, size_t count_max, size_t bytes_max,
                       struct str *ret)
{
    size_t n = 0;
    size_t bytes = 0;
    while (n < q->ready && n < count_max) {
        struct str line = *place(q, n);
        if (n > 0 && line.len > bytes_max - bytes) {
            break;
        }
        bytes += line.len < bytes_max ? line.len : bytes_max;
        ret[n++] = line;
    }
    return n;
}

void line_queue_drop(struct line_queue *q, size_t n)
{
    assert(n <= q->ready);
    for (size_t i = 0; i < n; i++) {
        struct str line = *place(q, 0);
        q->bytes -= line.len + LINE_OVERHEAD_BYTES;
        free((void *)(uintptr_t)line.ptr);
        q->first = (q->first + 1) & (q->room - 1);
        q->length--;
        q->ready--;
    }
    q->is_full = q->is_full && n == 0;
}
