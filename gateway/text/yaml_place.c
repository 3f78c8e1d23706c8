#include "gateway/text/yaml_place.h"

/* Walks the raw text of a scalar beside what was read from it. `raw` stands where the next byte of
 * the value comes from. */
struct aligner {
    struct str file;
    size_t raw;
    struct str value;
    size_t at; /* in value */
    size_t want;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_break(char c)
{
    return c == '\n' || c == '\r';
}

static char raw_char(const struct aligner *a, size_t i)
{
    return a->raw + i < a->file.len ? a->file.ptr[a->raw + i] : '\0';
}

static bool is_done(const struct aligner *a)
{
    return a->at >= a->want || a->raw >= a->file.len;
}

bool text_lines_find(struct text_lines *lines, struct str text, struct arena *arena)
{
    size_t count = 1;
    for (size_t i = 0; i < text.len; i++) {
        count += text.ptr[i] == '\n';
    }
    size_t *starts = arena_calloc(arena, count, sizeof *starts);
    if (!starts) {
        return false;
    }
    starts[0] = str_starts_with(text, STR("\xef\xbb\xbf")) ? 3 : 0;
    size_t line = 1;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\n') {
            starts[line++] = i + 1;
        }
    }
    *lines = (struct text_lines){text, starts, count};
    return true;
}

static size_t line_start(const struct text_lines *file, uint32_t line)
{
    size_t i = line > 0 ? line - 1 : 0;
    return i < file->count ? file->starts[i] : file->text.len;
}

struct text_place text_place_at(const struct text_lines *lines, uint32_t line, uint32_t column)
{
    struct str file = lines->text;
    size_t at = line_start(lines, line);
    uint32_t c = 1;
    while (c < column && at < file.len && file.ptr[at] != '\n') {
        at++;
        while (at < file.len && ((unsigned char)file.ptr[at] & 0xC0) == 0x80) {
            at++;
        }
        c++;
    }
    return (struct text_place){line, column, at};
}

/* The place of a byte that does not stand before `start`. */
static struct text_place place_after(struct str file, struct text_place start, size_t offset)
{
    struct text_place p = {start.line, start.column, offset};
    for (size_t i = start.offset; i < offset && i < file.len; i++) {
        if (file.ptr[i] == '\n') {
            p.line++;
            p.column = 1;
        } else if (((unsigned char)file.ptr[i] & 0xC0) != 0x80) {
            p.column++;
        }
    }
    return p;
}

struct str text_line_at(struct str file, size_t offset)
{
    size_t begin = offset < file.len ? offset : file.len;
    while (begin > 0 && file.ptr[begin - 1] != '\n') {
        begin--;
    }
    size_t end = begin;
    while (end < file.len && !is_break(file.ptr[end])) {
        end++;
    }
    return str_make(file.ptr + begin, end - begin);
}

/* A line break of a flow scalar with the blanks around it: one space, or a newline for each empty
 * line. False when the value does not go on like that. */
static bool skip_fold(struct aligner *a)
{
    size_t end = a->raw;
    size_t breaks = 0;
    while (end < a->file.len && (is_blank(a->file.ptr[end]) || is_break(a->file.ptr[end]))) {
        breaks += a->file.ptr[end] == '\n';
        end++;
    }
    if (breaks == 0) {
        return false;
    }
    size_t made = breaks > 1 ? breaks - 1 : 1;
    if (a->want - a->at < made) {
        a->at = a->want; /* inside of the fold: its beginning is the place */
        return true;
    }
    a->at += made;
    a->raw = end;
    return true;
}

/* Is there nothing but blanks before the end of the line? */
static bool at_fold(const struct aligner *a)
{
    size_t i = 0;
    while (is_blank(raw_char(a, i))) {
        i++;
    }
    return is_break(raw_char(a, i));
}

static size_t utf8_len(uint32_t c)
{
    return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

static uint32_t hex_value(struct str s)
{
    uint32_t v = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        v = v * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return v;
}

/* What stands for one character of a double-quoted scalar: \n, \x41, or a break that is hidden. */
static void step_escape(struct aligner *a)
{
    char c = raw_char(a, 1);
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (is_break(c)) {
        a->raw += 2;
        while (is_blank(raw_char(a, 0)) || is_break(raw_char(a, 0))) {
            a->raw++;
        }
        return;
    }
    size_t made = 1;
    if (digits > 0 && a->raw + 2 + digits <= a->file.len) {
        made = utf8_len(hex_value(str_make(a->file.ptr + a->raw + 2, digits)));
    } else if (c == 'N' || c == '_') {
        made = 2;
    } else if (c == 'L' || c == 'P') {
        made = 3;
    }
    if (a->want - a->at < made) {
        a->at = a->want;
        return;
    }
    a->raw += 2 + digits;
    a->at += made;
}

static void align_flow(struct aligner *a, char quote)
{
    while (!is_done(a)) {
        if (at_fold(a) && skip_fold(a)) {
            continue;
        }
        if (quote == '"' && raw_char(a, 0) == '\\') {
            step_escape(a);
            continue;
        }
        a->raw += quote == '\'' && raw_char(a, 0) == '\'' ? 2 : 1;
        a->at++;
    }
    /* What is wanted may begin behind a fold that ends the part before it. */
    if (a->at == a->want && a->at < a->value.len && at_fold(a) && !is_blank(a->value.ptr[a->at]) &&
        a->value.ptr[a->at] != '\n') {
        while (is_blank(raw_char(a, 0)) || is_break(raw_char(a, 0))) {
            a->raw++;
        }
    }
}

static size_t to_next_line(struct aligner *a)
{
    while (a->raw < a->file.len && a->file.ptr[a->raw] != '\n') {
        a->raw++;
    }
    return a->raw < a->file.len ? ++a->raw : a->raw;
}

/* Spaces that the block's lines are indented by: of its first line that has text, less the spaces
 * that the value itself begins with. */
static size_t block_indent(const struct aligner *a, struct str header)
{
    size_t at = a->raw;
    for (;;) {
        size_t spaces = 0;
        while (at + spaces < a->file.len && a->file.ptr[at + spaces] == ' ') {
            spaces++;
        }
        size_t end = at + spaces;
        if (end >= a->file.len) {
            return 0;
        }
        if (!is_break(a->file.ptr[end])) {
            size_t own = 0;
            bool has_digit = false;
            for (size_t i = 0; i < header.len; i++) {
                has_digit |= header.ptr[i] >= '1' && header.ptr[i] <= '9';
            }
            while (has_digit && own < a->value.len && a->value.ptr[own] == ' ') {
                own++;
            }
            return spaces >= own ? spaces - own : 0;
        }
        while (at < a->file.len && a->file.ptr[at] != '\n') {
            at++;
        }
        at++;
    }
}

static void skip_indent(struct aligner *a, size_t indent)
{
    for (size_t i = 0; i < indent && raw_char(a, 0) == ' '; i++) {
        a->raw++;
    }
}

/* The end of a line in a block. A folded one made a space of a single break and left out one of
 * several. */
static void step_block_break(struct aligner *a, bool is_folded, size_t indent)
{
    size_t breaks = 0;
    while (is_break(raw_char(a, 0))) {
        breaks += raw_char(a, 0) == '\n';
        a->raw++;
        if (a->raw > 0 && a->file.ptr[a->raw - 1] == '\n') {
            skip_indent(a, indent);
        }
    }
    if (is_folded && a->value.ptr[a->at] == ' ') {
        a->at++;
        return;
    }
    for (size_t i = 0; i < breaks && a->at < a->want && a->value.ptr[a->at] == '\n'; i++) {
        a->at++;
    }
}

static void align_block(struct aligner *a, bool is_folded)
{
    size_t header = a->raw;
    (void)to_next_line(a);
    size_t indent = block_indent(a, str_make(a->file.ptr + header, a->raw - header));
    /* Empty lines at the start belong to the value. */
    while (!is_done(a) && is_break(raw_char(a, 0)) && a->value.ptr[a->at] == '\n') {
        a->raw += raw_char(a, 0) == '\r' ? 2 : 1;
        a->at++;
    }
    skip_indent(a, indent);
    while (!is_done(a)) {
        if (is_break(raw_char(a, 0))) {
            step_block_break(a, is_folded, indent);
        } else {
            a->raw++;
            a->at++;
        }
    }
}

struct text_place yaml_place_of(const struct text_lines *lines, const struct tree_node *scalar,
                                size_t offset)
{
    struct str file = lines->text;
    struct text_place start = text_place_at(lines, scalar->line, scalar->column);
    struct aligner a = {.file = file,
                        .raw = start.offset,
                        .value = scalar->text,
                        .want = offset < scalar->text.len ? offset : scalar->text.len};
    char first = raw_char(&a, 0);
    if (!scalar->is_plain && (first == '|' || first == '>')) {
        align_block(&a, first == '>');
    } else if (!scalar->is_plain && (first == '"' || first == '\'')) {
        a.raw++;
        align_flow(&a, first);
    } else {
        align_flow(&a, '\0');
    }
    bool is_end = a.at >= scalar->text.len;
    bool agrees = a.at == a.want && (is_end || a.raw < file.len);
    return agrees ? place_after(file, start, a.raw) : start;
}
