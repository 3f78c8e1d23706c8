#include "gateway/cli/table.h"

#include <assert.h>

enum { GAP = 2, CELL_MAX_BYTES = 64 * 1024, NARROWEST = 3 };

static size_t min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The widest column that is wider than it must be; NULL: none is. */
static size_t *widest_that_gives(struct table *t, bool is_dire)
{
    size_t *widest = NULL;
    for (size_t i = 0; i < t->count; i++) {
        size_t narrowest = t->columns[i].narrowest;
        size_t least = is_dire ? min(narrowest, NARROWEST) : narrowest;
        bool gives = narrowest > 0 && t->widths[i] > least;
        widest = gives && (!widest || t->widths[i] > *widest) ? &t->widths[i] : widest;
    }
    return widest;
}

/* Takes from the widest again and again, so that short ones stay whole; where that is not enough,
 * more than they like to give. */
static void cut_to_fit(struct table *t)
{
    size_t total = GAP * (t->count - 1);
    for (size_t i = 0; i < t->count; i++) {
        total += t->widths[i];
    }
    for (; t->width_max > 0 && total > t->width_max; total--) {
        size_t *widest = widest_that_gives(t, false);
        widest = widest ? widest : widest_that_gives(t, true);
        if (!widest) {
            return;
        }
        --*widest;
    }
}

struct table table_for(FILE *to, const struct table_column *columns, size_t count)
{
    assert(count > 0 && count <= TABLE_COLUMNS_MAX);
    struct table t = {columns, count, output_columns(to), output_has_colours(to), {0}};
    for (size_t i = 0; i < count; i++) {
        t.widths[i] = columns[i].usual;
    }
    cut_to_fit(&t);
    return t;
}

/* A cell as it is shown, whole. What is too long to be shown at all is cut. */
static struct str shown(const char *text, struct buf *scratch)
{
    buf_clear(scratch);
    output_escape(str_make(text, min(strlen(text), CELL_MAX_BYTES / 8)), false, scratch);
    return buf_str(scratch);
}

void table_fit(struct table *t, const struct table_cell *cells, size_t rows)
{
    struct buf scratch;
    buf_init(&scratch, CELL_MAX_BYTES);
    for (size_t c = 0; c < t->count; c++) {
        size_t widest = output_width(str_from(t->columns[c].title));
        for (size_t r = 0; r < rows; r++) {
            size_t w = output_width(shown(cells[r * t->count + c].text, &scratch));
            widest = w > widest ? w : widest;
        }
        t->widths[c] = widest;
    }
    buf_free(&scratch);
    cut_to_fit(t);
}

static void add_spaces(struct buf *out, size_t n)
{
    buf_printf(out, "%*s", (int)n, "");
}

/* The last cell is neither padded nor, where there is no terminal, cut. */
static void add_cell(const struct table *t, size_t c, struct str text, enum output_style style,
                     struct buf *out)
{
    bool is_last = c == t->count - 1;
    bool is_cut = t->width_max > 0 && output_width(text) > t->widths[c];
    struct str head = is_cut ? output_head(text, t->widths[c] - 1) : text;
    size_t width = output_width(head) + is_cut;
    size_t padding = width < t->widths[c] ? t->widths[c] - width : 0;
    bool has_style = t->has_colours && style != OUTPUT_PLAIN && text.len > 0;
    if (t->columns[c].is_number) {
        add_spaces(out, padding);
    }
    buf_add_cstr(out, has_style ? output_style_code(style) : "");
    buf_add_str(out, head);
    buf_add_cstr(out, is_cut ? "\u2026" : "");
    buf_add_cstr(out, has_style ? output_style_code(OUTPUT_PLAIN) : "");
    if (!is_last) {
        add_spaces(out, (t->columns[c].is_number ? 0 : padding) + GAP);
    }
}

void table_add_row(const struct table *t, const struct table_cell *cells, struct buf *out)
{
    struct buf scratch;
    buf_init(&scratch, CELL_MAX_BYTES);
    for (size_t c = 0; c < t->count; c++) {
        add_cell(t, c, shown(cells[c].text, &scratch), cells[c].style, out);
    }
    while (out->len > 0 && out->ptr[out->len - 1] == ' ') {
        out->len--;
    }
    buf_add_u8(out, '\n');
    out->failed |= scratch.failed;
    buf_free(&scratch);
}

void table_add_titles(const struct table *t, struct buf *out)
{
    struct table_cell titles[TABLE_COLUMNS_MAX];
    for (size_t c = 0; c < t->count; c++) {
        titles[c] = (struct table_cell){t->columns[c].title, OUTPUT_BOLD};
    }
    table_add_row(t, titles, out);
}
