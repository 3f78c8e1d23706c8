#include "gateway/cli/page.h"

#include <stdio.h>
#include <string.h>

enum { LABEL_COLUMNS = 16, NARROWEST = 20, PARAGRAPH_MAX_BYTES = 64 * 1024 * 1024 };

struct page page_for_stdout(struct buf *out)
{
    return (struct page){out, output_columns(stdout), output_has_colours(stdout)};
}

static void add_styled(struct page *p, enum output_style style, struct str text)
{
    bool has_style = p->has_colours && style != OUTPUT_PLAIN;
    buf_add_cstr(p->out, has_style ? output_style_code(style) : "");
    output_escape(text, false, p->out);
    buf_add_cstr(p->out, has_style ? output_style_code(OUTPUT_PLAIN) : "");
}

void page_heading(struct page *p, const char *text)
{
    buf_add_cstr(p->out, p->out->len > 0 ? "\n" : "");
    add_styled(p, OUTPUT_BOLD, str_from(text));
    buf_add_u8(p->out, '\n');
}

/* How much of a text stands on the next line: up to the last blank that lets it fit, or as much as
 * there is room for. */
static size_t line_length(struct str text, size_t columns)
{
    const char *newline = text.len > 0 ? memchr(text.ptr, '\n', text.len) : NULL;
    size_t len = newline ? (size_t)(newline - text.ptr) : text.len;
    struct str head = columns > 0 ? output_head(str_make(text.ptr, len), columns) : text;
    if (columns == 0 || head.len >= len) {
        return len;
    }
    for (size_t i = head.len; i > 0; i--) {
        if (text.ptr[i] == ' ') {
            return i;
        }
    }
    return head.len > 0 ? head.len : 1;
}

static size_t room_behind(const struct page *p, size_t used)
{
    return p->width == 0 ? 0 : p->width > used + NARROWEST ? p->width - used : NARROWEST;
}

/* The first line stands behind `used` columns. */
static void add_lines(struct page *p, enum output_style style, struct str safe, size_t used)
{
    bool is_first = true;
    while (safe.len > 0 || is_first) {
        size_t n = line_length(safe, room_behind(p, is_first ? used : LABEL_COLUMNS));
        if (!is_first && n > 0) {
            buf_printf(p->out, "%*s", LABEL_COLUMNS, "");
        }
        add_styled(p, n > 0 ? style : OUTPUT_PLAIN, str_make(safe.ptr, n));
        buf_add_u8(p->out, '\n');
        size_t taken = n < safe.len ? n + (safe.ptr[n] == ' ' || safe.ptr[n] == '\n') : n;
        safe = str_make(safe.ptr + taken, safe.len - taken);
        is_first = false;
    }
}

void page_styled_field(struct page *p, const char *label, enum output_style style, const char *text)
{
    struct buf safe;
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == '\n') {
        len--;
    }
    if (len == 0) {
        return;
    }
    buf_init(&safe, PARAGRAPH_MAX_BYTES);
    output_escape(str_make(text, len), true, &safe);
    struct str head = str_from(label);
    buf_add_cstr(p->out, "  ");
    add_styled(p, OUTPUT_DIM, head);
    size_t used = 2 + output_width(head);
    size_t gap = used < LABEL_COLUMNS ? LABEL_COLUMNS - used : 1;
    buf_printf(p->out, "%*s", (int)gap, "");
    p->out->failed |= safe.failed;
    add_lines(p, style, buf_str(&safe), used + gap);
    buf_free(&safe);
}

void page_field(struct page *p, const char *label, const char *text)
{
    page_styled_field(p, label, OUTPUT_PLAIN, text);
}

int page_show(const struct page *p, struct error *err)
{
    if (p->out->failed) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "this is too long to be shown: use -o");
    }
    return fwrite(p->out->ptr, 1, p->out->len, stdout) == p->out->len && fflush(stdout) == 0
               ? 0
               : error_set(err, STATUS_UNAVAILABLE, "cannot write to standard output");
}
