#include "gateway/policyfile/yaml_trap.h"

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
        return (struct yaml_trap){"yaml-tag", NULL, ""};
    }
    if (at == '\t' || has_tab_indent) {
        return (struct yaml_trap){"yaml-tab", "a tab stands where YAML wants spaces",
                                  "indent with spaces"};
    }
    if (strstr(err->text, "escape")) {
        return (struct yaml_trap){
            "yaml-escape", "in double quotes a backslash is an escape of YAML, and this is none",
            "use single quotes, write \\\\, or " BLOCK_HINT};
    }
    if (strstr(err->text, "mapping values are not allowed")) {
        return (struct yaml_trap){"yaml-colon",
                                  "': ' inside an unquoted expression begins a mapping in YAML",
                                  "put the expression in quotes, or " BLOCK_HINT};
    }
    if (strstr(err->text, "expected key") || strstr(err->text, "block end") ||
        strstr(err->text, "expected <")) {
        if (first == '"' || first == '\'' || first == '[' || first == '{') {
            return (struct yaml_trap){
                "yaml-quote",
                "an expression that begins with a quote or bracket ends, for YAML, "
                "where that closes",
                "put all of it in quotes of the other kind, or " BLOCK_HINT};
        }
    }
    if (strstr(err->text, "cannot start any token")) {
        return (struct yaml_trap){"yaml-reserved",
                                  "an expression must not begin with '@', '`' or '%' unquoted",
                                  "put it in quotes, or " BLOCK_HINT};
    }
    return (struct yaml_trap){"yaml-syntax", NULL, ""};
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
