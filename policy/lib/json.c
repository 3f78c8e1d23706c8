#include "policy/cel/eval.h"

#include <stdio.h>

#include "policy/base/json_out.h"
#include "policy/base/utf8.h"
#include "policy/lib/numbers.h"
#include "policy/lib/time.h"

/* JSON to values and back: json.parse(), json.marshal(), policy_value_from_json(). */

enum { JSON_DEPTH_MAX = 60, JSON_OUT_BYTES_MAX = 4 << 20 };

struct reader {
    struct str text;
    size_t at;
    struct arena *arena;
    const char *why;
    bool out_of_memory;
};

static bool read_value(struct reader *r, struct policy_value *ret, unsigned depth);

static bool fail(struct reader *r, const char *why)
{
    r->why = r->why ? r->why : why;
    return false;
}

static bool no_memory(struct reader *r)
{
    r->out_of_memory = true;
    return fail(r, "it needs more memory than it may use");
}

static int peek(const struct reader *r)
{
    return r->at < r->text.len ? (unsigned char)r->text.ptr[r->at] : -1;
}

static void skip_space(struct reader *r)
{
    while (peek(r) == ' ' || peek(r) == '\t' || peek(r) == '\n' || peek(r) == '\r') {
        r->at++;
    }
}

static bool take(struct reader *r, char c)
{
    skip_space(r);
    if (peek(r) != c) {
        return false;
    }
    r->at++;
    return true;
}

static bool read_hex4(struct reader *r, uint32_t *ret)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(r);
        bool digit = c >= '0' && c <= '9';
        if (!digit && !((c | 32) >= 'a' && (c | 32) <= 'f')) {
            return fail(r, "bad \\u escape");
        }
        v = v * 16 + (uint32_t)(digit ? c - '0' : (c | 32) - 'a' + 10);
        r->at++;
    }
    *ret = v;
    return true;
}

static bool read_unicode_escape(struct reader *r, char *out, size_t *len)
{
    uint32_t v;
    uint32_t low;
    if (!read_hex4(r, &v)) {
        return false;
    }
    if (v >= 0xD800 && v <= 0xDBFF) {
        if (peek(r) != '\\' || r->at + 1 >= r->text.len || r->text.ptr[r->at + 1] != 'u') {
            return fail(r, "half of a surrogate pair");
        }
        r->at += 2;
        if (!read_hex4(r, &low) || low < 0xDC00 || low > 0xDFFF) {
            return fail(r, "half of a surrogate pair");
        }
        v = 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00);
    }
    size_t n = utf8_encode(v, out + *len);
    if (n == 0) {
        return fail(r, "half of a surrogate pair");
    }
    *len += n;
    return true;
}

static bool read_escape(struct reader *r, char *out, size_t *len)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    int c = peek(r);
    r->at++;
    if (c == 'u') {
        return read_unicode_escape(r, out, len);
    }
    const char *at = c > 0 ? strchr(from, c) : NULL;
    if (!at) {
        return fail(r, "bad escape");
    }
    out[(*len)++] = to[at - from];
    return true;
}

/* At the opening quote. Text without escapes is not copied. */
static bool read_string(struct reader *r, struct policy_value *ret)
{
    size_t begin = ++r->at;
    size_t end = begin;
    bool escaped = false;
    while (end < r->text.len && r->text.ptr[end] != '"') {
        escaped = escaped || r->text.ptr[end] == '\\';
        end += r->text.ptr[end] == '\\' ? 2 : 1;
    }
    if (end >= r->text.len) {
        return fail(r, "string without end");
    }
    char *out = escaped ? arena_alloc(r->arena, end - begin) : NULL;
    size_t len = 0;
    if (escaped && !out) {
        return no_memory(r);
    }
    while (peek(r) != '"') {
        int c = peek(r);
        if (c < ' ') {
            return fail(r, "control character in a string");
        }
        r->at++;
        if (c == '\\') {
            if (!read_escape(r, out, &len)) {
                return false;
            }
        } else if (escaped) {
            out[len++] = (char)c;
        }
    }
    *ret = policy_string(escaped ? str_make(out, len) : str_make(r->text.ptr + begin, end - begin));
    r->at++;
    return true;
}

static bool read_number(struct reader *r, struct policy_value *ret)
{
    size_t begin = r->at;
    double d;
    if (peek(r) == '-') {
        r->at++;
    }
    bool zero = peek(r) == '0';
    size_t digits = r->at;
    while (peek(r) >= '0' && peek(r) <= '9') {
        r->at++;
    }
    if (r->at == digits || (zero && r->at > digits + 1)) {
        return fail(r, "bad number");
    }
    if (peek(r) == '.') {
        size_t point = ++r->at;
        while (peek(r) >= '0' && peek(r) <= '9') {
            r->at++;
        }
        if (r->at == point) {
            return fail(r, "bad number");
        }
    }
    while (peek(r) == 'e' || peek(r) == 'E' || peek(r) == '+' || peek(r) == '-' ||
           (peek(r) >= '0' && peek(r) <= '9')) {
        r->at++;
    }
    if (!number_parse_double(str_make(r->text.ptr + begin, r->at - begin), &d)) {
        return fail(r, "bad number");
    }
    *ret = policy_double(d);
    return true;
}

static void *grow(struct reader *r, void *items, size_t count, size_t *room, size_t size)
{
    void *grown = arena_grow(r->arena, items, count, room, size, 8);
    if (!grown) {
        (void)no_memory(r);
    }
    return grown;
}

static bool read_array(struct reader *r, struct policy_value *ret, unsigned depth)
{
    struct policy_value *items = NULL;
    size_t count = 0;
    size_t room = 0;
    r->at++;
    if (!take(r, ']')) {
        do {
            items = grow(r, items, count, &room, sizeof *items);
            if (!items || !read_value(r, &items[count], depth + 1)) {
                return false;
            }
            count++;
        } while (take(r, ','));
        if (!take(r, ']')) {
            return fail(r, "expected ',' or ']'");
        }
    }
    const struct policy_list *list = policy_list_build(r->arena, items, count);
    *ret = policy_list(list);
    return list || no_memory(r);
}

static bool read_object(struct reader *r, struct policy_value *ret, unsigned depth)
{
    struct policy_entry *entries = NULL;
    size_t count = 0;
    size_t room = 0;
    const struct policy_map *map;
    r->at++;
    if (!take(r, '}')) {
        do {
            entries = grow(r, entries, count, &room, sizeof *entries);
            skip_space(r);
            if (!entries || peek(r) != '"') {
                return fail(r, "expected a member's name");
            }
            if (!read_string(r, &entries[count].key)) {
                return false;
            }
            if (!take(r, ':')) {
                return fail(r, "expected ':'");
            }
            if (!read_value(r, &entries[count].value, depth + 1)) {
                return false;
            }
            count++;
        } while (take(r, ','));
        if (!take(r, '}')) {
            return fail(r, "expected ',' or '}'");
        }
    }
    int status = policy_map_build(r->arena, entries, count, &map);
    if (status) {
        return status == -STATUS_INVALID_ARGUMENT ? fail(r, "a member stands twice") : no_memory(r);
    }
    *ret = policy_map(map);
    return true;
}

static bool read_word(struct reader *r, const char *word, struct policy_value v,
                      struct policy_value *ret)
{
    struct str rest = str_make(r->text.ptr + r->at, r->text.len - r->at);
    if (!str_starts_with(rest, str_from(word))) {
        return fail(r, "expected a value");
    }
    r->at += strlen(word);
    *ret = v;
    return true;
}

static bool read_value(struct reader *r, struct policy_value *ret, unsigned depth)
{
    skip_space(r);
    if (depth > JSON_DEPTH_MAX) {
        return fail(r, "nested too deeply");
    }
    switch (peek(r)) {
    case '{':
        return read_object(r, ret, depth);
    case '[':
        return read_array(r, ret, depth);
    case '"':
        return read_string(r, ret);
    case 't':
        return read_word(r, "true", policy_bool(true), ret);
    case 'f':
        return read_word(r, "false", policy_bool(false), ret);
    case 'n':
        return read_word(r, "null", policy_null(), ret);
    default:
        return read_number(r, ret);
    }
}

static bool read_document(struct reader *r, struct policy_value *ret)
{
    if (!utf8_is_valid(r->text)) {
        return fail(r, "not valid UTF-8");
    }
    if (!read_value(r, ret, 0)) {
        return false;
    }
    skip_space(r);
    return r->at == r->text.len || fail(r, "text behind the value");
}

int policy_value_from_json(struct str text, struct arena *arena, struct policy_value *ret,
                           struct error *err)
{
    struct reader r = {.text = text, .arena = arena};
    struct policy_value v;
    if (read_document(&r, &v)) {
        *ret = v;
        return 0;
    }
    int status = r.out_of_memory ? STATUS_RESOURCE_EXHAUSTED : STATUS_INVALID_ARGUMENT;
    return error_set(err, status, "JSON: %s at byte %zu", r.why, r.at);
}

/* Octelium's json.parse() takes objects only. */
static struct policy_value json_parse(struct eval *e, const struct node *n,
                                      const struct policy_value *args)
{
    struct reader r = {.text = policy_value_str(args[0]), .arena = e->arena};
    struct policy_value v;
    if (!eval_charge(e, eval_text_cost(args[0].len) * 4)) {
        return eval_limit(e, n);
    }
    if (!read_document(&r, &v)) {
        const char *text = arena_printf(e->arena, "json.parse(): %s at byte %zu", r.why, r.at);
        return r.out_of_memory || !text ? eval_out_of_memory(e, n)
                                        : eval_fail(e, n, POLICY_E_CONVERSION, text);
    }
    return v.kind == POLICY_MAP ? v
                                : eval_fail(e, n, POLICY_E_CONVERSION,
                                            "json.parse(): the text is not a JSON object");
}

/* Writes a value; 0 or a negative policy_error. */
static int write_value(struct eval *e, struct json_out *j, struct policy_value v, unsigned depth);

static int write_list(struct eval *e, struct json_out *j, const struct policy_list *list,
                      unsigned depth)
{
    size_t count = policy_list_size(list);
    int code = 0;
    json_begin_array(j);
    for (size_t i = 0; i < count && code == 0; i++) {
        struct policy_value item;
        code = eval_list_get(e, list, i, &item);
        code = code ? code : write_value(e, j, item, depth + 1);
    }
    /* After a failure the text is thrown away: nothing is closed. */
    if (code == 0) {
        json_end_array(j);
    }
    return code;
}

static int write_key(struct json_out *j, struct policy_value key)
{
    char text[NUMBER_TEXT_MAX];
    int len;
    switch (key.kind) {
    case POLICY_STRING:
        json_key_str(j, policy_value_str(key));
        return 0;
    case POLICY_BOOL:
        json_key(j, key.as.truth ? "true" : "false");
        return 0;
    case POLICY_INT:
        len = snprintf(text, sizeof text, "%lld", (long long)key.as.i);
        break;
    default:
        len = snprintf(text, sizeof text, "%llu", (unsigned long long)key.as.u);
        break;
    }
    json_key_str(j, str_make(text, (size_t)len));
    return 0;
}

static int write_map(struct eval *e, struct json_out *j, const struct policy_map *map,
                     unsigned depth)
{
    size_t cursor = 0;
    int code = 0;
    struct policy_value key;
    struct policy_value value;
    json_begin_object(j);
    while (code == 0) {
        int more = policy_map_next(map, &cursor, e->arena, &key, &value);
        if (more <= 0) {
            code = more < 0 ? value_input_error(more) : 0;
            break;
        }
        code = write_key(j, key);
        code = code ? code : write_value(e, j, value, depth + 1);
    }
    if (code == 0) {
        json_end_object(j);
    }
    return code;
}

static int write_value(struct eval *e, struct json_out *j, struct policy_value v, unsigned depth)
{
    char text[TIME_TEXT_MAX];
    if (depth > JSON_DEPTH_MAX) {
        return -POLICY_E_DEPTH;
    }
    if (!eval_charge(e, 1 + (v.kind == POLICY_STRING ? v.len / 10 : 0))) {
        return -POLICY_E_COST;
    }
    switch (v.kind) {
    case POLICY_NULL:
        json_null(j);
        return 0;
    case POLICY_BOOL:
        json_bool(j, v.as.truth);
        return 0;
    case POLICY_INT:
        json_int(j, v.as.i);
        return 0;
    case POLICY_UINT:
        json_uint(j, v.as.u);
        return 0;
    case POLICY_DOUBLE:
        json_double(j, v.as.d);
        return 0;
    case POLICY_STRING:
    case POLICY_TYPE:
        json_string(j, policy_value_str(v));
        return 0;
    case POLICY_TIMESTAMP:
        json_string(j, str_make(text, time_format_timestamp(v, text)));
        return 0;
    case POLICY_DURATION:
        json_string(j, str_make(text, time_format_duration(v, text)));
        return 0;
    case POLICY_LIST:
        return write_list(e, j, v.as.list, depth);
    case POLICY_MAP:
        return write_map(e, j, v.as.map, depth);
    default:
        return -POLICY_E_NO_SUCH_OVERLOAD;
    }
}

static struct policy_value json_marshal(struct eval *e, const struct node *n,
                                        const struct policy_value *args)
{
    struct buf b;
    buf_init(&b, JSON_OUT_BYTES_MAX);
    struct json_out j = json_out_to(&b);
    int code = write_value(e, &j, args[0], 0);
    char *out = code || b.failed ? NULL : eval_alloc(e, b.len);
    size_t len = b.len;
    if (out) {
        memcpy(out, b.ptr, len);
    }
    bool failed = b.failed;
    buf_free(&b);
    if (code == -POLICY_E_NO_SUCH_OVERLOAD) {
        return eval_fail(e, n, POLICY_E_CONVERSION, "json.marshal(): a value that JSON lacks");
    }
    if (code) {
        return eval_fail_code(e, n, code);
    }
    if (failed) {
        return eval_out_of_memory(e, n);
    }
    return out ? eval_take_text(POLICY_STRING, out, len) : eval_alloc_failed(e, n);
}

static const struct function_row rows[] = {
    {"json.parse", 0, "string -> dyn", json_parse},
    {"json.marshal", 0, "dyn -> string", json_marshal},
};

const struct function_table functions_json = {POLICY_LIB_OCTELIUM, rows,
                                              sizeof rows / sizeof rows[0]};
