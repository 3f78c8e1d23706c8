#include "policy/cel/eval.h"

#include <limits.h>

#include "policy/base/utf8.h"
#include "policy/lib/text.h"

/* The strings extension. Indices count code points. */

static struct str arg_str(const struct policy_value *args, size_t i)
{
    return policy_value_str(args[i]);
}

static struct policy_value out_of_range(struct eval *e, const struct node *n,
                                        struct policy_value index)
{
    return eval_fail_on(e, n, POLICY_E_INDEX_RANGE, "index out of range:", index);
}

static struct policy_value sub(struct str s, size_t from, size_t to)
{
    return policy_string(str_make(s.ptr + from, to - from));
}

static struct policy_value char_at(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    struct str s = arg_str(args, 0);
    if (!eval_charge(e, eval_text_cost(s.len))) {
        return eval_limit(e, n);
    }
    size_t at = text_offset(s, args[1].as.i);
    if (at == TEXT_NOWHERE) {
        return out_of_range(e, n, args[1]);
    }
    uint32_t ignored;
    size_t len = utf8_decode(str_make(s.ptr + at, s.len - at), &ignored);
    return sub(s, at, at + len);
}

static struct policy_value index_result(struct str s, size_t at)
{
    return policy_int(at == TEXT_NOWHERE ? -1 : (int64_t)utf8_count(str_make(s.ptr, at)));
}

static struct policy_value index_of(struct eval *e, const struct node *n,
                                    const struct policy_value *args)
{
    struct str s = arg_str(args, 0);
    size_t from = n->count > 2 ? text_offset(s, args[2].as.i) : 0;
    if (!eval_charge(e, eval_text_cost(s.len))) {
        return eval_limit(e, n);
    }
    if (from == TEXT_NOWHERE) {
        return out_of_range(e, n, args[2]);
    }
    return index_result(s, text_find(s, arg_str(args, 1), from));
}

static struct policy_value last_index_of(struct eval *e, const struct node *n,
                                         const struct policy_value *args)
{
    struct str s = arg_str(args, 0);
    size_t from = n->count > 2 ? text_offset(s, args[2].as.i) : s.len;
    /* The search backwards compares at each place. */
    if (!eval_charge(e, eval_text_cost(s.len) + (uint64_t)s.len * (1 + args[1].len / 64) / 10)) {
        return eval_limit(e, n);
    }
    if (from == TEXT_NOWHERE) {
        return out_of_range(e, n, args[2]);
    }
    return index_result(s, text_find_last(s, arg_str(args, 1), from));
}

static struct policy_value substring(struct eval *e, const struct node *n,
                                     const struct policy_value *args)
{
    struct str s = arg_str(args, 0);
    if (!eval_charge(e, eval_text_cost(s.len))) {
        return eval_limit(e, n);
    }
    size_t from = text_offset(s, args[1].as.i);
    size_t to = n->count > 2 ? text_offset(s, args[2].as.i) : s.len;
    if (from == TEXT_NOWHERE) {
        return out_of_range(e, n, args[1]);
    }
    if (to == TEXT_NOWHERE || to < from) {
        return out_of_range(e, n, args[2]);
    }
    return sub(s, from, to);
}

/* Each code point of s through `map`; room for the longest encoding. */
static struct policy_value map_points(struct eval *e, const struct node *n, struct str s,
                                      uint32_t (*map)(uint32_t))
{
    char *out = s.len > SIZE_MAX / 4 ? NULL : eval_alloc(e, s.len * 3 + 4);
    size_t used = 0;
    if (!out) {
        return eval_alloc_failed(e, n);
    }
    for (size_t i = 0; i < s.len;) {
        uint32_t c;
        size_t len = utf8_decode(str_make(s.ptr + i, s.len - i), &c);
        if (len == 0) {
            return eval_fail(e, n, POLICY_E_INVALID_ARGUMENT, "text is not valid UTF-8");
        }
        used += utf8_encode(map(c), out + used);
        i += len;
    }
    return eval_take_text(POLICY_STRING, out, used);
}

static uint32_t lower_ascii_point(uint32_t c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

static uint32_t upper_ascii_point(uint32_t c)
{
    return c >= 'a' && c <= 'z' ? c - 32 : c;
}

static struct policy_value lower_ascii(struct eval *e, const struct node *n,
                                       const struct policy_value *args)
{
    return map_points(e, n, arg_str(args, 0), lower_ascii_point);
}

static struct policy_value upper_ascii(struct eval *e, const struct node *n,
                                       const struct policy_value *args)
{
    return map_points(e, n, arg_str(args, 0), upper_ascii_point);
}

static struct policy_value to_lower(struct eval *e, const struct node *n,
                                    const struct policy_value *args)
{
    return map_points(e, n, arg_str(args, 0), text_to_lower);
}

static struct policy_value to_upper(struct eval *e, const struct node *n,
                                    const struct policy_value *args)
{
    return map_points(e, n, arg_str(args, 0), text_to_upper);
}

static struct policy_value trim(struct eval *e, const struct node *n,
                                const struct policy_value *args)
{
    struct str s = arg_str(args, 0);
    if (!eval_charge(e, eval_text_cost(s.len))) {
        return eval_limit(e, n);
    }
    size_t first = SIZE_MAX;
    size_t end = 0;
    for (size_t i = 0; i < s.len;) {
        uint32_t c = 0xFFFD;
        size_t len = utf8_decode(str_make(s.ptr + i, s.len - i), &c);
        len = len ? len : 1;
        if (!text_is_space(c)) {
            first = first == SIZE_MAX ? i : first;
            end = i + len;
        }
        i += len;
    }
    return first == SIZE_MAX ? policy_string(STR("")) : sub(s, first, end);
}

static struct policy_value reverse(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    struct str s = arg_str(args, 0);
    char *out = eval_alloc(e, s.len);
    if (!out) {
        return eval_alloc_failed(e, n);
    }
    for (size_t i = 0; i < s.len;) {
        uint32_t c;
        size_t len = utf8_decode(str_make(s.ptr + i, s.len - i), &c);
        len = len ? len : 1;
        memcpy(out + s.len - i - len, s.ptr + i, len);
        i += len;
    }
    return eval_take_text(POLICY_STRING, out, s.len);
}

/* The next place to replace: a match of `what`, or with an empty one, each code point. */
static size_t next_place(struct str s, struct str what, size_t from, bool is_first)
{
    if (what.len > 0) {
        return text_find(s, what, from);
    }
    if (is_first || from > s.len) {
        return is_first ? 0 : TEXT_NOWHERE;
    }
    if (from == s.len) {
        return TEXT_NOWHERE;
    }
    uint32_t ignored;
    size_t len = utf8_decode(str_make(s.ptr + from, s.len - from), &ignored);
    return from + (len ? len : 1);
}

static uint64_t count_places(struct str s, struct str what, uint64_t most)
{
    uint64_t count = 0;
    size_t at = 0;
    while (count < most) {
        at = next_place(s, what, at, count == 0);
        if (at == TEXT_NOWHERE) {
            break;
        }
        count++;
        at += what.len;
    }
    return count;
}

static struct policy_value replace(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    struct str s = arg_str(args, 0);
    struct str what = arg_str(args, 1);
    struct str by = arg_str(args, 2);
    uint64_t most = n->count > 3 && args[3].as.i >= 0 ? (uint64_t)args[3].as.i : UINT64_MAX;
    if (!eval_charge(e, eval_text_cost(s.len))) {
        return eval_limit(e, n);
    }
    uint64_t count = count_places(s, what, most);
    uint64_t added;
    if (__builtin_mul_overflow(count, (uint64_t)by.len, &added) || added > UINT32_MAX) {
        return eval_out_of_memory(e, n);
    }
    char *out = eval_alloc(e, s.len + (size_t)added);
    if (!out) {
        return eval_alloc_failed(e, n);
    }
    size_t used = 0;
    size_t done = 0; /* of s */
    size_t at = 0;
    for (uint64_t i = 0; i < count; i++) {
        at = next_place(s, what, at, i == 0);
        memcpy(out + used, s.ptr + done, at - done);
        used += at - done;
        if (by.len > 0) {
            memcpy(out + used, by.ptr, by.len);
        }
        used += by.len;
        at += what.len;
        done = at;
    }
    if (s.len > done) {
        memcpy(out + used, s.ptr + done, s.len - done);
    }
    return eval_take_text(POLICY_STRING, out, used + s.len - done);
}

static size_t count_pieces(struct str s, struct str separator, size_t most)
{
    size_t count = 0;
    if (separator.len == 0) {
        count = utf8_count(s);
        return count < most ? count : most;
    }
    for (size_t at = 0; at != TEXT_NOWHERE && count < most; count++) {
        at = text_find(s, separator, at);
        at = at == TEXT_NOWHERE ? at : at + separator.len;
    }
    return count;
}

static struct policy_value split(struct eval *e, const struct node *n,
                                 const struct policy_value *args)
{
    struct str s = arg_str(args, 0);
    struct str separator = arg_str(args, 1);
    size_t most = n->count > 2 && args[2].as.i >= 0 ? (size_t)args[2].as.i : SIZE_MAX;
    if (!eval_charge(e, eval_text_cost(s.len))) {
        return eval_limit(e, n);
    }
    size_t count = count_pieces(s, separator, most);
    struct policy_value *items;
    struct policy_value list = eval_make_list(e, n, count, &items);
    size_t begin = 0;
    for (size_t i = 0; i < count && !value_failed(list); i++) {
        size_t end = s.len;
        size_t next = s.len;
        if (i + 1 < count && separator.len > 0) {
            end = text_find(s, separator, begin);
            next = end + separator.len;
        } else if (i + 1 < count) {
            end = next_place(s, separator, begin, false);
            next = end;
        }
        items[i] = sub(s, begin, end);
        begin = next;
    }
    return list;
}

static struct policy_value join(struct eval *e, const struct node *n,
                                const struct policy_value *args)
{
    struct str separator = n->count > 1 ? arg_str(args, 1) : STR_NONE;
    const struct policy_list *list = args[0].as.list;
    size_t count = policy_list_size(list);
    uint64_t total = 0;
    struct policy_value item;
    for (size_t i = 0; i < count; i++) {
        int code = eval_charge(e, 1) ? eval_list_get(e, list, i, &item) : -POLICY_E_COST;
        if (code) {
            return eval_fail_code(e, n, code);
        }
        if (item.kind != POLICY_STRING) {
            return eval_no_overload(e, n, item);
        }
        total += item.len + (i > 0 ? separator.len : 0);
    }
    char *out = total > UINT32_MAX ? NULL : eval_alloc(e, (size_t)total);
    size_t used = 0;
    if (!out) {
        return eval_alloc_failed(e, n);
    }
    for (size_t i = 0; i < count; i++) {
        if (eval_list_get(e, list, i, &item) || item.kind != POLICY_STRING ||
            item.len + (i > 0 ? separator.len : 0) > total - used) {
            return eval_fail_code(e, n, -POLICY_E_INPUT);
        }
        if (i > 0 && separator.len > 0) {
            memcpy(out + used, separator.ptr, separator.len);
            used += separator.len;
        }
        if (item.len > 0) {
            memcpy(out + used, item.as.text, item.len);
            used += item.len;
        }
    }
    return eval_take_text(POLICY_STRING, out, used);
}

static size_t quote_point(uint32_t c, const char *bytes, size_t len, char *out)
{
    static const char from[] = "\a\b\f\n\r\t\v\\\"";
    static const char to[] = "abfnrtv\\\"";
    const char *at = c > 0 && c < 128 ? strchr(from, (int)c) : NULL;
    if (at) {
        out[0] = '\\';
        out[1] = to[at - from];
        return 2;
    }
    memcpy(out, bytes, len);
    return len;
}

static struct policy_value quote(struct eval *e, const struct node *n,
                                 const struct policy_value *args)
{
    struct str s = arg_str(args, 0);
    char *out = s.len > UINT32_MAX / 4 ? NULL : eval_alloc(e, s.len * 3 + 2);
    size_t used = 0;
    if (!out) {
        return eval_alloc_failed(e, n);
    }
    out[used++] = '"';
    for (size_t i = 0; i < s.len;) {
        uint32_t c = 0xFFFD;
        size_t len = utf8_decode(str_make(s.ptr + i, s.len - i), &c);
        if (len == 0) {
            used += utf8_encode(0xFFFD, out + used);
            i++;
            continue;
        }
        used += quote_point(c, s.ptr + i, len, out + used);
        i += len;
    }
    out[used++] = '"';
    return eval_take_text(POLICY_STRING, out, used);
}

static const struct function_row rows[] = {
    {"charAt", FUNCTION_MEMBER, "string, int -> string", char_at},
    {"indexOf", FUNCTION_MEMBER, "string, string -> int", index_of},
    {"indexOf", FUNCTION_MEMBER, "string, string, int -> int", index_of},
    {"lastIndexOf", FUNCTION_MEMBER, "string, string -> int", last_index_of},
    {"lastIndexOf", FUNCTION_MEMBER, "string, string, int -> int", last_index_of},
    {"join", FUNCTION_MEMBER, "list(string) -> string", join},
    {"join", FUNCTION_MEMBER, "list(string), string -> string", join},
    {"lowerAscii", FUNCTION_MEMBER, "string -> string", lower_ascii},
    {"upperAscii", FUNCTION_MEMBER, "string -> string", upper_ascii},
    {"replace", FUNCTION_MEMBER, "string, string, string -> string", replace},
    {"replace", FUNCTION_MEMBER, "string, string, string, int -> string", replace},
    {"reverse", FUNCTION_MEMBER, "string -> string", reverse},
    {"split", FUNCTION_MEMBER, "string, string -> list(string)", split},
    {"split", FUNCTION_MEMBER, "string, string, int -> list(string)", split},
    {"substring", FUNCTION_MEMBER, "string, int -> string", substring},
    {"substring", FUNCTION_MEMBER, "string, int, int -> string", substring},
    {"trim", FUNCTION_MEMBER, "string -> string", trim},
    {"strings.quote", 0, "string -> string", quote},
};

const struct function_table functions_strings_ext = {POLICY_LIB_STRINGS, rows,
                                                     sizeof rows / sizeof rows[0]};

static const struct function_row octelium_rows[] = {
    {"toLower", FUNCTION_MEMBER, "string -> string", to_lower},
    {"toUpper", FUNCTION_MEMBER, "string -> string", to_upper},
};

const struct function_table functions_octelium = {POLICY_LIB_OCTELIUM, octelium_rows,
                                                  sizeof octelium_rows / sizeof octelium_rows[0]};
