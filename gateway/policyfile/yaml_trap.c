#include "gateway/policyfile/yaml_trap.h"

#include <ctype.h>
#include <strings.h>

#define BLOCK_HINT "use a block: `match: |` and the expression on the next line"

/* What stands behind "key: " on the line, if that is how it begins. */
static struct str value_on_line(struct str line)
{
    for (size_t i = 0; i + 1 < line.len; i++) {
        if (line.ptr[i] == ':' && line.ptr[i + 1] == ' ') {
            size_t at = i + 1;
            while (at < line.len && line.ptr[at] == ' ') {
                at++;
            }
            return str_make(line.ptr + at, line.len - at);
        }
    }
    return STR_NONE;
}

static size_t indent_of(struct str line)
{
    size_t n = 0;
    while (n < line.len && line.ptr[n] == ' ') {
        n++;
    }
    return n;
}

static struct str without_end(struct str line)
{
    while (line.len > 0 && (unsigned char)line.ptr[line.len - 1] <= ' ') {
        line.len--;
    }
    return line;
}

/* "key: |", "key: >-" and so on. */
static bool opens_block(struct str line)
{
    struct str value = value_on_line(without_end(line));
    return value.len > 0 && value.len <= 3 && (value.ptr[0] == '|' || value.ptr[0] == '>');
}

/* The line in front of `line`, or the one before, begins a block, and the text below it is not
 * indented: then it is no text of that block. 0: it is not so. */
static uint32_t flat_block_line(const struct text_lines *lines, uint32_t line)
{
    for (uint32_t at = line; at > 1 && at + 2 > line; at--) {
        struct str text = text_line_at(lines->text, text_place_at(lines, at, 1).offset);
        struct str above = text_line_at(lines->text, text_place_at(lines, at - 1, 1).offset);
        bool is_key_of_a_list = indent_of(above) < above.len && above.ptr[indent_of(above)] == '-';
        if (without_end(text).len > 0 && opens_block(above) && !is_key_of_a_list &&
            indent_of(text) <= indent_of(above)) {
            return at;
        }
    }
    return 0;
}

static struct yaml_trap trap_of(const char *code, const char *text, const char *remedy)
{
    return (struct yaml_trap){.code = code, .text = text, .remedy = remedy};
}

struct yaml_trap yaml_trap_of(const struct text_lines *lines, const struct error *err)
{
    struct str file = lines->text;
    struct text_place place = text_place_at(lines, err->line ? err->line : 1, err->column);
    struct str line = text_line_at(file, place.offset);
    struct str value = value_on_line(line);
    char at = place.offset < file.len ? file.ptr[place.offset] : '\0';
    char first = value.len > 0 ? value.ptr[0] : '\0';
    bool has_tab_indent = false;
    for (size_t i = 0; i < line.len && (line.ptr[i] == ' ' || line.ptr[i] == '\t'); i++) {
        has_tab_indent |= line.ptr[i] == '\t';
    }
    if (strstr(err->text, "tag") || strstr(err->text, "anchor") || strstr(err->text, "alias")) {
        return trap_of("yaml-tag", NULL, "");
    }
    if (at == '\t' || has_tab_indent) {
        return trap_of("yaml-tab", "a tab stands where YAML wants spaces", "indent with spaces");
    }
    uint32_t flat = err->line ? flat_block_line(lines, err->line) : 0;
    if (flat) {
        struct yaml_trap trap =
            trap_of("yaml-block", "the text of a block (|) must be indented deeper than its key",
                    "indent it by two spaces more");
        trap.line = flat;
        trap.column = 1;
        return trap;
    }
    if (strstr(err->text, "escape")) {
        return trap_of("yaml-escape",
                       "in double quotes a backslash is an escape of YAML, and this is none",
                       "use single quotes, write \\\\, or " BLOCK_HINT);
    }
    if (strstr(err->text, "mapping values are not allowed")) {
        return trap_of("yaml-colon", "': ' inside an unquoted expression begins a mapping in YAML",
                       "put the expression in quotes, or " BLOCK_HINT);
    }
    bool ends_early = strstr(err->text, "expected key") || strstr(err->text, "block end") ||
                      strstr(err->text, "expected <");
    if (ends_early && (first == '"' || first == '\'' || first == '[' || first == '{')) {
        return trap_of("yaml-quote",
                       "an expression that begins with a quote or bracket ends, for YAML, where "
                       "that closes",
                       "put all of it in quotes of the other kind, or " BLOCK_HINT);
    }
    if (strstr(err->text, "cannot start any token")) {
        return trap_of("yaml-reserved",
                       "an expression must not begin with '@', '`' or '%' unquoted",
                       "put it in quotes, or " BLOCK_HINT);
    }
    return trap_of("yaml-syntax", NULL, "");
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_yes_or_no(struct str text)
{
    static const char *const words[] = {"y", "n", "yes", "no", "on", "off"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        struct str word = str_from(words[i]);
        if (text.len == word.len && strncasecmp(text.ptr, word.ptr, word.len) == 0) {
            return true;
        }
    }
    return false;
}

/* 12:30, 1:02:03: for YAML 1.1 a number of base 60. */
static bool is_base_60(struct str text)
{
    size_t digits = 0;
    size_t colons = 0;
    for (size_t i = 0; i < text.len; i++) {
        bool is_colon = text.ptr[i] == ':';
        bool is_big = colons > 0 && (digits == 2 || (digits == 1 && text.ptr[i - 1] > '5'));
        if (is_colon ? digits == 0 : !is_digit(text.ptr[i]) || is_big) {
            return false;
        }
        colons += is_colon;
        digits = is_colon ? 0 : digits + 1;
    }
    return colons > 0 && digits > 0;
}

/* 2001-01-01, alone or before a time. */
static bool is_date(struct str text)
{
    static const char form[] = "0000-00-00";
    for (size_t i = 0; i < sizeof form - 1; i++) {
        bool fits = i < text.len && (form[i] == '0' ? is_digit(text.ptr[i]) : text.ptr[i] == '-');
        if (!fits) {
            return false;
        }
    }
    return text.len == sizeof form - 1 || text.ptr[10] == 'T' || text.ptr[10] == ' ';
}

/* Digits with '_' between them or a point too many or too few, 0x1F, 0o17, 0b1, .inf, .nan. */
static bool is_other_number(struct str text)
{
    size_t digits = 0;
    size_t dots = 0;
    bool has_base = text.len > 2 && text.ptr[0] == '0' && strchr("xob", text.ptr[1]);
    for (size_t i = has_base ? 2 : 0; i < text.len; i++) {
        char c = text.ptr[i];
        digits += is_digit(c) || (has_base && isxdigit((unsigned char)c));
        dots += c == '.';
    }
    size_t others = text.len - (has_base ? 2 : 0) - digits - dots;
    for (size_t i = 0; i < text.len; i++) {
        others -= text.ptr[i] == '_';
    }
    bool is_word = text.len == 4 &&
                   (strncasecmp(text.ptr, ".inf", 4) == 0 || strncasecmp(text.ptr, ".nan", 4) == 0);
    bool begins_well = text.len > 0 && (is_digit(text.ptr[0]) || text.ptr[0] == '.');
    return is_word || (begins_well && digits > 0 && dots <= 1 && others == 0);
}

/* What some reader takes for a number or a time, and JSON's grammar does not. */
static bool looks_like_number(struct str text)
{
    size_t sign = text.len > 0 && (text.ptr[0] == '-' || text.ptr[0] == '+') ? 1 : 0;
    struct str rest = str_make(text.ptr + sign, text.len - sign);
    return is_base_60(rest) || is_date(text) || is_other_number(rest);
}

struct yaml_trap yaml_trap_scalar(const struct tree_node *scalar)
{
    struct str text = scalar->text;
    if (!scalar->is_plain || scalar->type != TREE_STRING || text.len == 0) {
        return trap_of(NULL, NULL, "");
    }
    if (is_yes_or_no(text)) {
        return trap_of("yaml-scalar",
                       "this is text here, and true or false for older readers of YAML",
                       "write true or false, or put the text in quotes");
    }
    if (!looks_like_number(text)) {
        return trap_of(NULL, NULL, "");
    }
    size_t at = text.ptr[0] == '-' || text.ptr[0] == '+' ? 1 : 0;
    bool is_octal = at + 1 < text.len && text.ptr[at] == '0' && is_digit(text.ptr[at + 1]);
    return trap_of("yaml-scalar",
                   is_octal ? "a number that begins with 0 is octal for some readers of YAML; here "
                              "it is text"
                            : "this is text here, and a number or a time for other readers of YAML",
                   "write a decimal number, or put the text in quotes");
}

size_t yaml_trap_comment(const struct text_lines *lines, const struct tree_node *scalar)
{
    struct str file = lines->text;
    if (!scalar->is_plain || scalar->text.len == 0) {
        return 0;
    }
    size_t at = yaml_place_of(lines, scalar, scalar->text.len).offset;
    size_t hash = at;
    while (hash < file.len && (file.ptr[hash] == ' ' || file.ptr[hash] == '\t')) {
        hash++;
    }
    return hash > at && hash < file.len && file.ptr[hash] == '#' ? hash : 0;
}
