#include "gateway/text/yaml_out.h"

#include <assert.h>
#include <math.h>
#include <strings.h>

#include "policy/base/json_out.h"
#include "policy/base/utf8.h"

struct yaml_out yaml_out_to(struct buf *out)
{
    return (struct yaml_out){.out = out};
}

static void indent(struct yaml_out *y, unsigned levels)
{
    for (unsigned i = 0; i < levels; i++) {
        buf_add_cstr(y->out, "  ");
    }
}

/* Before anything is put into the innermost map or list. */
static void begin_line(struct yaml_out *y)
{
    unsigned level = y->depth;
    assert(level > 0);
    if (!y->levels[level].has_items) {
        y->levels[level].has_items = true;
        if (y->levels[level].is_item) {
            buf_add_u8(y->out, ' ');
            y->on_item_line = true;
        } else if (level > 1) {
            buf_add_u8(y->out, '\n');
        }
    }
    if (y->on_item_line) {
        y->on_item_line = false;
        return;
    }
    indent(y, level - 1);
}

/* Before a scalar: what separates it from its key or dash. */
static void before_scalar(struct yaml_out *y)
{
    if (y->after_key) {
        y->after_key = false;
        buf_add_u8(y->out, ' ');
    } else if (y->depth > 0) {
        begin_line(y);
        buf_add_cstr(y->out, "- ");
    }
}

static void begin_level(struct yaml_out *y, bool is_map)
{
    bool is_item = y->depth > 0 && !y->after_key;
    if (is_item) {
        begin_line(y);
        buf_add_u8(y->out, '-');
    }
    y->after_key = false;
    assert(y->depth < SINK_DEPTH_MAX);
    y->depth++;
    y->levels[y->depth].is_map = is_map;
    y->levels[y->depth].has_items = false;
    y->levels[y->depth].is_item = is_item;
}

static void end_level(struct yaml_out *y)
{
    if (!y->levels[y->depth].has_items) {
        buf_add_cstr(y->out, y->depth > 1 ? " " : "");
        buf_add_cstr(y->out, y->levels[y->depth].is_map ? "{}\n" : "[]\n");
    }
    y->depth--;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_reserved_word(struct str s)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no",
                                        "on",   "off",  "y",     "n"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (s.len == strlen(words[i]) && strncasecmp(s.ptr, words[i], s.len) == 0) {
            return true;
        }
    }
    return false;
}

/* Text that no YAML reader takes for anything but itself. */
static bool is_plain_text(struct str s)
{
    if (s.len == 0 || !(is_letter(s.ptr[0]) || s.ptr[0] == '/' || s.ptr[0] == '_') ||
        s.ptr[s.len - 1] == ' ' || is_reserved_word(s)) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool next_is_space = i + 1 == s.len || s.ptr[i + 1] == ' ';
        if (c == ':' && next_is_space) {
            return false;
        }
        if (!is_letter(c) && !(c >= '0' && c <= '9') && (c == '\0' || !strchr("_./@-+=() :", c))) {
            return false;
        }
    }
    return true;
}

/* Several lines that a literal block can hold as they are. */
static bool is_block_text(struct str s)
{
    if (s.len < 2 || s.ptr[0] == ' ' || s.ptr[0] == '\n' || s.ptr[0] == '\t' ||
        !memchr(s.ptr, '\n', s.len - 1) || (s.ptr[s.len - 1] == '\n' && s.ptr[s.len - 2] == '\n')) {
        return false;
    }
    for (size_t at = 0; at < s.len;) {
        uint32_t c;
        size_t n = utf8_decode((struct str){s.ptr + at, s.len - at}, &c);
        bool is_break = c == 0x85 || c == 0x2028 || c == 0x2029 || c == 0xfeff;
        if (n == 0 || is_break || (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0)) {
            return false;
        }
        at += n;
    }
    return true;
}

static void write_block(struct yaml_out *y, struct str s)
{
    bool ends_line = s.ptr[s.len - 1] == '\n';
    buf_add_cstr(y->out, ends_line ? "|\n" : "|-\n");
    const char *end = s.ptr + s.len - ends_line;
    for (const char *line = s.ptr; line <= end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop) {
            stop = end;
        }
        if (stop > line) {
            indent(y, y->depth);
            buf_add(y->out, line, (size_t)(stop - line));
        }
        buf_add_u8(y->out, '\n');
        line = stop + 1;
    }
}

static void write_quoted(struct yaml_out *y, struct str s)
{
    struct json_out j = json_out_to(y->out); /* JSON's escapes are YAML's too */
    json_string(&j, s);
}

static void out_begin_map(void *state)
{
    begin_level(state, true);
}

static void out_begin_list(void *state)
{
    begin_level(state, false);
}

static void out_end(void *state)
{
    end_level(state);
}

static void out_key(void *state, struct str key)
{
    struct yaml_out *y = state;
    begin_line(y);
    if (is_plain_text(key)) {
        buf_add_str(y->out, key);
    } else {
        write_quoted(y, key);
    }
    buf_add_u8(y->out, ':');
    y->after_key = true;
}

static void out_string(void *state, struct str text)
{
    struct yaml_out *y = state;
    before_scalar(y);
    if (is_block_text(text) && y->depth > 0) {
        write_block(y, text);
        return;
    }
    if (is_plain_text(text)) {
        buf_add_str(y->out, text);
    } else {
        write_quoted(y, text);
    }
    buf_add_u8(y->out, '\n');
}

static void out_real(void *state, double value)
{
    struct yaml_out *y = state;
    before_scalar(y);
    struct json_out j = json_out_to(y->out);
    json_double(&j, value);
    buf_add_u8(y->out, '\n');
}

static void out_word(void *state, const char *text)
{
    struct yaml_out *y = state;
    before_scalar(y);
    buf_add_cstr(y->out, text);
    buf_add_u8(y->out, '\n');
}

struct sink yaml_out_sink(struct yaml_out *y)
{
    static const struct sink_ops ops = {
        .begin_map = out_begin_map,
        .end_map = out_end,
        .begin_list = out_begin_list,
        .end_list = out_end,
        .key = out_key,
        .string = out_string,
        .real = out_real,
        .word = out_word,
    };
    return (struct sink){&ops, y};
}
