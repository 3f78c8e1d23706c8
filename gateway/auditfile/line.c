#include "gateway/auditfile/line.h"

static bool take_prefix(struct str *s, struct str prefix)
{
    if (!str_starts_with(*s, prefix)) {
        return false;
    }
    *s = str_make(s->ptr + prefix.len, s->len - prefix.len);
    return true;
}

static bool take_number(struct str *s, uint64_t *ret)
{
    uint64_t n = 0;
    size_t i = 0;
    for (; i < s->len && s->ptr[i] >= '0' && s->ptr[i] <= '9'; i++) {
        if (__builtin_mul_overflow(n, 10U, &n) ||
            __builtin_add_overflow(n, (uint64_t)(s->ptr[i] - '0'), &n)) {
            return false;
        }
    }
    if (i == 0 || s->ptr[0] == '0' || n == UINT64_MAX) {
        return false;
    }
    *s = str_make(s->ptr + i, s->len - i);
    *ret = n;
    return true;
}

static bool take_hash(struct str *s, uint8_t ret[HASH_BYTES])
{
    size_t n = HASH_HEX_SIZE - 1;
    if (s->len < n || !hash_from_hex(str_make(s->ptr, n), ret)) {
        return false;
    }
    *s = str_make(s->ptr + n, s->len - n);
    return true;
}

/* The writer puts the kind right behind prev, before any text from outside. */
static enum line_kind kind_of(struct str rest)
{
    if (take_prefix(&rest, STR(",\"kind\":\"AuditErased\","))) {
        return LINE_ERASED;
    }
    if (!take_prefix(&rest, STR(",\"apiVersion\":\"cordium.ext/v1\",\"kind\":\"Audit"))) {
        return LINE_RECORD;
    }
    return str_starts_with(rest, STR("Checkpoint\""))  ? LINE_CHECKPOINT
           : str_starts_with(rest, STR("Tombstone\"")) ? LINE_TOMBSTONE
           : str_starts_with(rest, STR("Gap\""))       ? LINE_GAP
                                                       : LINE_RECORD;
}

static bool read_head(struct str text, struct line *ret, struct str *ret_rest)
{
    struct str rest = text;
    if (!take_prefix(&rest, STR("{\"sequence\":")) || !take_number(&rest, &ret->sequence) ||
        !take_prefix(&rest, STR(",\"prev\":\"")) || !take_hash(&rest, ret->prev) ||
        !take_prefix(&rest, STR("\"")) || rest.len == 0) {
        return false;
    }
    *ret_rest = rest;
    return (rest.ptr[0] == ',' || rest.len == 1) && text.ptr[text.len - 1] == '}' &&
           !memchr(text.ptr, 0, text.len);
}

/* Nothing but the hash stands in it. */
static bool read_erased(struct str rest, uint8_t ret[HASH_BYTES])
{
    return take_prefix(&rest, STR(",\"kind\":\"AuditErased\",\"sha256\":\"")) &&
           take_hash(&rest, ret) && str_eq(rest, STR("\"}"));
}

bool line_read_head(struct str text, struct line *ret)
{
    struct str rest;
    *ret = (struct line){.text = text};
    ret->is_ours = read_head(text, ret, &rest);
    ret->kind = ret->is_ours ? kind_of(rest) : LINE_RECORD;
    if (ret->kind == LINE_ERASED && !read_erased(rest, ret->hash)) {
        ret->is_ours = false;
    }
    return ret->is_ours;
}

bool line_look(struct str text, struct hasher *hasher, struct line *ret)
{
    bool is_erased = line_read_head(text, ret) && ret->kind == LINE_ERASED;
    return is_erased || hasher_digest(hasher, text, ret->hash);
}

bool line_take(struct str *text, struct str *ret)
{
    if (text->len == 0) {
        return false;
    }
    const char *newline = memchr(text->ptr, '\n', text->len);
    size_t len = newline ? (size_t)(newline - text->ptr) : text->len;
    size_t taken = newline ? len + 1 : len;
    *ret = str_make(text->ptr, len);
    *text = str_make(text->ptr + taken, text->len - taken);
    return true;
}
