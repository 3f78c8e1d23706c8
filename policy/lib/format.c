#include "policy/cel/eval.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy/base/utf8.h"
#include "policy/lib/numbers.h"
#include "policy/lib/time.h"

/* string.format() of the strings extension. The text grows in the eval arena, so that the memory
 * limit holds for it too. */

enum { PRECISION_DEFAULT = 6, PRECISION_MAX = 100, FORMAT_DEPTH_MAX = 64, FIXED_TEXT_MAX = 512 };

struct formatter {
    struct eval *e;
    const struct node *n;
    char *out;
    size_t len;
    size_t room;
    struct policy_value failed; /* ABSENT while all is well */
};

static void fail(struct formatter *f, struct policy_value failure)
{
    if (f->failed.kind == POLICY_ABSENT) {
        f->failed = failure;
    }
}

static bool is_failed(const struct formatter *f)
{
    return f->failed.kind != POLICY_ABSENT;
}

static void add(struct formatter *f, const char *text, size_t len)
{
    if (is_failed(f) || len == 0) {
        return;
    }
    if (len > f->room - f->len) {
        size_t room = (f->len + len) * 2 + 64;
        char *grown = eval_alloc(f->e, room);
        if (!grown) {
            fail(f, eval_alloc_failed(f->e, f->n));
            return;
        }
        if (f->len > 0) {
            memcpy(grown, f->out, f->len);
        }
        f->out = grown;
        f->room = room;
    }
    memcpy(f->out + f->len, text, len);
    f->len += len;
}

static void add_str(struct formatter *f, struct str s)
{
    add(f, s.ptr, s.len);
}

static void bad_argument(struct formatter *f, struct policy_value v)
{
    fail(f, eval_fail_on(f->e, f->n, POLICY_E_INVALID_FORMAT, "format(): the clause does not take",
                         v));
}

/* Bytes as text; each run of ill-formed bytes becomes one U+FFFD. */
static void add_bytes(struct formatter *f, struct str s)
{
    bool in_bad = false;
    for (size_t i = 0; i < s.len && !is_failed(f);) {
        uint32_t c;
        size_t len = utf8_decode(str_make(s.ptr + i, s.len - i), &c);
        if (len > 0) {
            add(f, s.ptr + i, len);
        } else if (!in_bad) {
            add_str(f, STR("\xEF\xBF\xBD"));
        }
        in_bad = len == 0;
        i += len ? len : 1;
    }
}

static void add_text(struct formatter *f, struct policy_value v, unsigned depth);

static void add_list(struct formatter *f, const struct policy_list *list, unsigned depth)
{
    size_t count = policy_list_size(list);
    add_str(f, STR("["));
    for (size_t i = 0; i < count && !is_failed(f); i++) {
        struct policy_value item;
        int code = eval_list_get(f->e, list, i, &item);
        if (code) {
            fail(f, eval_fail_code(f->e, f->n, code));
            return;
        }
        add_str(f, i > 0 ? STR(", ") : STR_NONE);
        add_text(f, item, depth + 1);
    }
    add_str(f, STR("]"));
}

/* A map's entry as text, for sorting by the text of the key. */
struct entry_text {
    struct str key;
    struct policy_value value;
};

static int compare_entry_texts(const void *a, const void *b)
{
    const struct entry_text *x = a;
    const struct entry_text *y = b;
    return str_cmp(x->key, y->key);
}

static struct str key_text(struct formatter *f, struct policy_value key, unsigned depth)
{
    struct formatter inner = {.e = f->e, .n = f->n};
    add_text(&inner, key, depth + 1);
    if (is_failed(&inner)) {
        fail(f, inner.failed);
    }
    return str_make(inner.out, inner.len);
}

/* Insertion sort below: stable and without malloc; charged as quadratic. */
static void sort_entry_texts(struct formatter *f, struct entry_text *entries, size_t count)
{
    if (!eval_charge(f->e, (uint64_t)count * count / 8)) {
        fail(f, eval_limit(f->e, f->n));
        return;
    }
    for (size_t i = 1; i < count; i++) {
        struct entry_text moving = entries[i];
        size_t k = i;
        for (; k > 0 && compare_entry_texts(&entries[k - 1], &moving) > 0; k--) {
            entries[k] = entries[k - 1];
        }
        entries[k] = moving;
    }
}

static void add_map(struct formatter *f, const struct policy_map *map, unsigned depth)
{
    size_t room = policy_map_size(map);
    struct entry_text *entries = arena_calloc(f->e->arena, room, sizeof *entries);
    size_t count = 0;
    size_t cursor = 0;
    struct policy_value key;
    if (!entries) {
        fail(f, eval_out_of_memory(f->e, f->n));
        return;
    }
    while (count < room && !is_failed(f) &&
           policy_map_next(map, &cursor, f->e->arena, &key, &entries[count].value) == 1) {
        entries[count].key = key_text(f, key, depth);
        count++;
    }
    if (!is_failed(f)) {
        sort_entry_texts(f, entries, count);
    }
    add_str(f, STR("{"));
    for (size_t i = 0; i < count && !is_failed(f); i++) {
        add_str(f, i > 0 ? STR(", ") : STR_NONE);
        add_str(f, entries[i].key);
        add_str(f, STR(": "));
        add_text(f, entries[i].value, depth + 1);
    }
    add_str(f, STR("}"));
}

static void add_number(struct formatter *f, struct policy_value v)
{
    char text[NUMBER_PLAIN_MAX];
    size_t len;
    if (v.kind == POLICY_DOUBLE) {
        len = number_format_plain(v.as.d, text);
    } else if (v.kind == POLICY_INT) {
        len = (size_t)snprintf(text, sizeof text, "%lld", (long long)v.as.i);
    } else {
        len = (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)v.as.u);
    }
    add(f, text, len);
}

/* The %s clause. */
static void add_text(struct formatter *f, struct policy_value v, unsigned depth)
{
    char text[TIME_TEXT_MAX];
    if (depth > FORMAT_DEPTH_MAX) {
        fail(f, eval_fail_code(f->e, f->n, -POLICY_E_DEPTH));
        return;
    }
    switch (v.kind) {
    case POLICY_NULL:
        add_str(f, STR("null"));
        break;
    case POLICY_BOOL:
        add_str(f, v.as.truth ? STR("true") : STR("false"));
        break;
    case POLICY_INT:
    case POLICY_UINT:
    case POLICY_DOUBLE:
        add_number(f, v);
        break;
    case POLICY_STRING:
    case POLICY_TYPE:
        add_str(f, policy_value_str(v));
        break;
    case POLICY_BYTES:
        add_bytes(f, policy_value_str(v));
        break;
    case POLICY_TIMESTAMP:
        add(f, text, time_format_timestamp(v, text));
        break;
    case POLICY_DURATION:
        add(f, text, time_format_duration(v, text));
        break;
    case POLICY_LIST:
        add_list(f, v.as.list, depth);
        break;
    case POLICY_MAP:
        add_map(f, v.as.map, depth);
        break;
    default:
        bad_argument(f, v);
        break;
    }
}

static void add_floating(struct formatter *f, struct policy_value v, char verb, int precision)
{
    double d;
    char text[FIXED_TEXT_MAX];
    if (!value_is_number(v)) {
        bad_argument(f, v);
        return;
    }
    d = v.kind == POLICY_DOUBLE ? v.as.d : v.kind == POLICY_INT ? (double)v.as.i : (double)v.as.u;
    if (isnan(d) || isinf(d)) {
        add_number(f, policy_double(d));
        return;
    }
    int len = verb == 'f' ? snprintf(text, sizeof text, "%.*f", precision, d)
                          : snprintf(text, sizeof text, "%.*e", precision, d);
    add(f, text, len > 0 && (size_t)len < sizeof text ? (size_t)len : 0);
}

/* Magnitude in a base that is a power of two. */
static void add_in_base(struct formatter *f, uint64_t magnitude, bool negative, unsigned shift,
                        const char *digits)
{
    char text[66];
    size_t at = sizeof text;
    do {
        text[--at] = digits[magnitude & ((1U << shift) - 1)];
        magnitude >>= shift;
    } while (magnitude > 0);
    if (negative) {
        text[--at] = '-';
    }
    add(f, text + at, sizeof text - at);
}

static void add_hex_bytes(struct formatter *f, struct str s, const char *digits)
{
    for (size_t i = 0; i < s.len && !is_failed(f); i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        char pair[2] = {digits[c >> 4], digits[c & 15]};
        add(f, pair, 2);
    }
}

static void add_radix(struct formatter *f, struct policy_value v, char verb)
{
    const char *digits = verb == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    unsigned shift = verb == 'b' ? 1 : verb == 'o' ? 3 : 4;
    bool hex = verb == 'x' || verb == 'X';
    if (v.kind == POLICY_INT) {
        bool negative = v.as.i < 0;
        add_in_base(f, negative ? 0 - v.as.u : v.as.u, negative, shift, digits);
    } else if (v.kind == POLICY_UINT) {
        add_in_base(f, v.as.u, false, shift, digits);
    } else if (v.kind == POLICY_BOOL && verb == 'b') {
        add_str(f, v.as.truth ? STR("1") : STR("0"));
    } else if (hex && (v.kind == POLICY_STRING || v.kind == POLICY_BYTES)) {
        add_hex_bytes(f, policy_value_str(v), digits);
    } else {
        bad_argument(f, v);
    }
}

static void add_clause(struct formatter *f, struct policy_value v, char verb, int precision)
{
    switch (verb) {
    case 's':
        add_text(f, v, 0);
        break;
    case 'd':
        if (value_is_number(v)) {
            add_number(f, v);
        } else {
            bad_argument(f, v);
        }
        break;
    case 'f':
    case 'e':
        add_floating(f, v, verb, precision);
        break;
    case 'b':
    case 'o':
    case 'x':
    case 'X':
        add_radix(f, v, verb);
        break;
    default:
        fail(f, eval_fail(f->e, f->n, POLICY_E_INVALID_FORMAT, "format(): unknown clause"));
        break;
    }
}

/* ".N" at *at, or the default; false when it is no number up to PRECISION_MAX. */
static bool read_precision(struct str s, size_t *at, int *ret)
{
    *ret = PRECISION_DEFAULT;
    if (*at >= s.len || s.ptr[*at] != '.') {
        return true;
    }
    int value = 0;
    size_t digits = 0;
    for (++*at; *at < s.len && s.ptr[*at] >= '0' && s.ptr[*at] <= '9' && digits < 4; ++*at) {
        value = value * 10 + (s.ptr[*at] - '0');
        digits++;
    }
    *ret = value;
    return digits > 0 && value <= PRECISION_MAX;
}

/* One clause after its '%', which stood before *at. */
static void format_clause(struct formatter *f, struct str s, size_t *at,
                          const struct policy_list *list, size_t *next)
{
    int precision;
    bool has_precision = *at < s.len && s.ptr[*at] == '.';
    struct policy_value v;
    if (!read_precision(s, at, &precision) || *at >= s.len ||
        (has_precision && s.ptr[*at] != 'f' && s.ptr[*at] != 'e')) {
        fail(f, eval_fail(f->e, f->n, POLICY_E_INVALID_FORMAT, "format(): bad clause after '%'"));
        return;
    }
    char verb = s.ptr[(*at)++];
    if (*next >= policy_list_size(list)) {
        fail(f, eval_fail(f->e, f->n, POLICY_E_INVALID_FORMAT,
                          "format(): fewer arguments than clauses"));
        return;
    }
    int code = eval_list_get(f->e, list, (*next)++, &v);
    if (code) {
        fail(f, eval_fail_code(f->e, f->n, code));
        return;
    }
    add_clause(f, v, verb, precision);
}

static struct policy_value format(struct eval *e, const struct node *n,
                                  const struct policy_value *args)
{
    struct formatter f = {.e = e, .n = n};
    struct str s = policy_value_str(args[0]);
    size_t next = 0;
    for (size_t at = 0; at < s.len && !is_failed(&f);) {
        const char *percent = memchr(s.ptr + at, '%', s.len - at);
        size_t plain = percent ? (size_t)(percent - s.ptr) - at : s.len - at;
        add(&f, s.ptr + at, plain);
        at += plain;
        if (at >= s.len) {
            break;
        }
        at++;
        if (at < s.len && s.ptr[at] == '%') {
            add_str(&f, STR("%"));
            at++;
        } else {
            format_clause(&f, s, &at, args[1].as.list, &next);
        }
    }
    if (!is_failed(&f) && next < policy_list_size(args[1].as.list)) {
        fail(&f, eval_fail(e, n, POLICY_E_INVALID_FORMAT, "format(): more arguments than clauses"));
    }
    return is_failed(&f) ? f.failed : eval_take_text(POLICY_STRING, f.out, f.len);
}

static const struct function_row rows[] = {
    {"format", FUNCTION_MEMBER, "string, list(dyn) -> string", format},
};

const struct function_table functions_format = {POLICY_LIB_STRINGS, rows,
                                                sizeof rows / sizeof rows[0]};
