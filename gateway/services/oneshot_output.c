#include "gateway/services/oneshot_output.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/rpc/codec.h"
#include "policy/base/utf8.h"

void oneshot_output_init(struct oneshot_output *o, size_t bytes_max)
{
    *o = (struct oneshot_output){.head_max = bytes_max / 2, .tail_max = bytes_max - bytes_max / 2};
    buf_init(&o->head, o->head_max);
}

void oneshot_output_free(struct oneshot_output *o)
{
    buf_free(&o->head);
    free(o->tail);
    o->tail = NULL;
}

static void add_to_tail(struct oneshot_output *o, struct str bytes)
{
    if (bytes.len > o->tail_max) {
        bytes.ptr += bytes.len - o->tail_max;
        bytes.len = o->tail_max;
        o->tail_at = 0; /* all of the ring is replaced */
    }
    size_t first = o->tail_max - o->tail_at;
    first = first < bytes.len ? first : bytes.len;
    memcpy(o->tail + o->tail_at, bytes.ptr, first);
    memcpy(o->tail, bytes.ptr + first, bytes.len - first);
    o->tail_at = (o->tail_at + bytes.len) % o->tail_max;
}

void oneshot_output_add(struct oneshot_output *o, struct str bytes)
{
    o->total_bytes += bytes.len;
    size_t room = o->head_max - o->head.len;
    size_t n = room < bytes.len ? room : bytes.len;
    if (n > 0) {
        buf_add(&o->head, bytes.ptr, n);
        o->has_failed = o->has_failed || o->head.failed;
        bytes.ptr += n;
        bytes.len -= n;
    }
    if (bytes.len == 0 || o->tail_max == 0) {
        return;
    }
    if (!o->tail && !o->has_failed) {
        o->tail = malloc(o->tail_max);
        o->has_failed = !o->tail;
    }
    if (o->tail) {
        add_to_tail(o, bytes);
    }
}

static bool is_cut(const struct oneshot_output *o)
{
    return o->total_bytes > o->head_max + o->tail_max || o->has_failed;
}

/* The ring in order. */
static struct str tail_of(const struct oneshot_output *o, struct arena *arena)
{
    uint64_t after_head = o->total_bytes - o->head.len;
    if (!o->tail || after_head == 0) {
        return STR_NONE;
    }
    size_t len = after_head < o->tail_max ? (size_t)after_head : o->tail_max;
    size_t start = after_head < o->tail_max ? 0 : o->tail_at;
    uint8_t *copy = arena_alloc(arena, len);
    if (!copy) {
        return STR_NONE;
    }
    size_t first = o->tail_max - start < len ? o->tail_max - start : len;
    memcpy(copy, o->tail + start, first);
    memcpy(copy + first, o->tail, len - first);
    return str_make(copy, len);
}

struct str oneshot_output_all(struct oneshot_output *o, struct arena *arena)
{
    struct str tail = tail_of(o, arena);
    char *all = arena_alloc(arena, o->head.len + tail.len + 1);
    if (!all || is_cut(o)) {
        return STR_NONE;
    }
    if (o->head.len > 0) {
        memcpy(all, o->head.ptr, o->head.len);
    }
    if (tail.len > 0) {
        memcpy(all + o->head.len, tail.ptr, tail.len);
    }
    return str_make(all, o->head.len + tail.len);
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* A character that the cut split at the end, or the rest of one at the beginning, goes away. */
static struct str without_split_end(struct str s)
{
    size_t back = 0;
    while (back < 3 && back < s.len && is_continuation(s.ptr[s.len - 1 - back])) {
        back++;
    }
    if (back == s.len) {
        return s;
    }
    struct str last = str_make(s.ptr + s.len - 1 - back, back + 1);
    uint32_t ignored;
    bool is_lead = ((unsigned char)last.ptr[0] & 0xc0) == 0xc0;
    return is_lead && utf8_decode(last, &ignored) == 0 ? str_make(s.ptr, s.len - last.len) : s;
}

static struct str without_split_start(struct str s)
{
    size_t n = 0;
    while (n < 3 && n < s.len && is_continuation(s.ptr[n])) {
        n++;
    }
    return str_make(s.ptr + n, s.len - n);
}

int oneshot_text_or_data(struct str bytes, struct arena *arena, char **ret_text,
                         ProtobufCBinaryData *ret_data)
{
    if (utf8_is_valid(bytes) && !str_has_nul(bytes)) {
        *ret_text = arena_strndup(arena, bytes.ptr ? bytes.ptr : "", bytes.len);
        return *ret_text ? 0 : -STATUS_RESOURCE_EXHAUSTED;
    }
    ret_data->data = arena_memdup(arena, bytes.ptr, bytes.len);
    ret_data->len = bytes.len;
    return ret_data->data ? 0 : -STATUS_RESOURCE_EXHAUSTED;
}

Ext__RunOutput *oneshot_output_message(const struct oneshot_output *o, struct arena *arena)
{
    Ext__RunOutput *m = CODEC_NEW(arena, Ext__RunOutput, ext__run_output);
    if (!m) {
        return NULL;
    }
    struct str head = buf_str(&o->head);
    struct str tail = tail_of(o, arena);
    m->total_bytes = o->total_bytes;
    m->is_truncated = is_cut(o);
    if (!m->is_truncated) {
        char *all = arena_alloc(arena, head.len + tail.len + 1);
        if (!all) {
            return NULL;
        }
        memcpy(all, head.len ? head.ptr : "", head.len);
        memcpy(all + head.len, tail.len ? tail.ptr : "", tail.len);
        return oneshot_text_or_data(str_make(all, head.len + tail.len), arena, &m->text, &m->data)
                   ? NULL
                   : m;
    }
    head = without_split_end(head);
    tail = without_split_start(tail);
    m->dropped_bytes = o->total_bytes - head.len - tail.len;
    return oneshot_text_or_data(head, arena, &m->text, &m->data) ||
                   oneshot_text_or_data(tail, arena, &m->tail_text, &m->tail_data)
               ? NULL
               : m;
}
