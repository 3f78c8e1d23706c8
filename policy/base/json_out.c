#include "policy/base/json_out.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "policy/base/utf8.h"

struct json_out json_out_to(struct buf *out)
{
    return (struct json_out){.out = out};
}

static void before_value(struct json_out *j)
{
    uint64_t bit = (uint64_t)1 << j->depth;
    if (j->after_key) {
        j->after_key = false;
    } else if (j->has_item & bit) {
        buf_add_u8(j->out, ',');
    }
    j->has_item |= bit;
}

static void open_level(struct json_out *j, char bracket)
{
    before_value(j);
    assert(j->depth < JSON_OUT_DEPTH_MAX);
    j->depth++;
    j->has_item &= ~((uint64_t)1 << j->depth);
    buf_add_u8(j->out, (uint8_t)bracket);
}

static void close_level(struct json_out *j, char bracket)
{
    assert(j->depth > 0 && !j->after_key);
    j->depth--;
    buf_add_u8(j->out, (uint8_t)bracket);
}

void json_begin_object(struct json_out *j)
{
    open_level(j, '{');
}

void json_end_object(struct json_out *j)
{
    close_level(j, '}');
}

void json_begin_array(struct json_out *j)
{
    open_level(j, '[');
}

void json_end_array(struct json_out *j)
{
    close_level(j, ']');
}

static void add_escape(struct buf *out, uint32_t c)
{
    static const char short_form[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (size_t i = 0; i + 1 < sizeof short_form; i += 2) {
        if ((uint32_t)short_form[i] == c) {
            buf_add_u8(out, '\\');
            buf_add_u8(out, (uint8_t)short_form[i + 1]);
            return;
        }
    }
    buf_printf(out, "\\u%04x", (unsigned)c);
}

/* Beside what JSON asks for: what a terminal or an editor acts upon when the text is shown raw, as
 * logs are. DEL and the C1 controls (U+009B begins an escape sequence), ends of lines that are none
 * for us, and marks that change the direction of what follows. */
static bool needs_escape(uint32_t c)
{
    if (c < 0x7F) {
        return c < 0x20 || c == '"' || c == '\\';
    }
    return c < 0xA0 || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069);
}

static void add_quoted(struct buf *out, struct str s)
{
    buf_add_u8(out, '"');
    size_t plain_from = 0;
    size_t i = 0;
    while (i < s.len) {
        uint32_t c = 0;
        size_t n = utf8_decode(str_make(s.ptr + i, s.len - i), &c);
        if (n > 0 && !needs_escape(c)) {
            i += n;
            continue;
        }
        buf_add(out, s.ptr + plain_from, i - plain_from);
        if (n == 0) {
            buf_add_cstr(out, "\\ufffd");
            n = 1;
        } else {
            add_escape(out, c);
        }
        i += n;
        plain_from = i;
    }
    if (s.len > plain_from) {
        buf_add(out, s.ptr + plain_from, s.len - plain_from);
    }
    buf_add_u8(out, '"');
}

void json_key_str(struct json_out *j, struct str key)
{
    assert(!j->after_key);
    before_value(j);
    add_quoted(j->out, key);
    buf_add_u8(j->out, ':');
    j->after_key = true;
}

void json_key(struct json_out *j, const char *key)
{
    json_key_str(j, str_from(key));
}

void json_string(struct json_out *j, struct str s)
{
    before_value(j);
    add_quoted(j->out, s);
}

void json_cstring(struct json_out *j, const char *s)
{
    json_string(j, str_from(s));
}

void json_int(struct json_out *j, int64_t v)
{
    before_value(j);
    buf_printf(j->out, "%" PRId64, v);
}

void json_uint(struct json_out *j, uint64_t v)
{
    before_value(j);
    buf_printf(j->out, "%" PRIu64, v);
}

void json_double(struct json_out *j, double v)
{
    if (isnan(v)) {
        json_cstring(j, "NaN");
        return;
    }
    if (isinf(v)) {
        json_cstring(j, v > 0 ? "Infinity" : "-Infinity");
        return;
    }
    before_value(j);
    char text[40];
    for (int precision = 15; precision <= 17; precision++) {
        (void)snprintf(text, sizeof text, "%.*g", precision, v);
        if (strtod(text, NULL) == v) {
            break;
        }
    }
    buf_add_cstr(j->out, text);
}

void json_bool(struct json_out *j, bool v)
{
    before_value(j);
    buf_add_cstr(j->out, v ? "true" : "false");
}

void json_null(struct json_out *j)
{
    before_value(j);
    buf_add_cstr(j->out, "null");
}

void json_raw(struct json_out *j, struct str text)
{
    before_value(j);
    buf_add_str(j->out, text);
}

void json_member_string(struct json_out *j, const char *key, const char *value)
{
    json_key(j, key);
    json_cstring(j, value);
}

void json_member_string_opt(struct json_out *j, const char *key, const char *value)
{
    if (value && value[0]) {
        json_member_string(j, key, value);
    }
}

void json_member_int(struct json_out *j, const char *key, int64_t value)
{
    json_key(j, key);
    json_int(j, value);
}

void json_member_uint(struct json_out *j, const char *key, uint64_t value)
{
    json_key(j, key);
    json_uint(j, value);
}

void json_member_bool(struct json_out *j, const char *key, bool value)
{
    json_key(j, key);
    json_bool(j, value);
}
