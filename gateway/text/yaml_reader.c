#include "gateway/text/yaml_reader.h"

#include <stdlib.h>
#include <yaml.h>

#include "policy/base/utf8.h"

struct yaml_stream {
    yaml_parser_t parser;
    struct str text; /* borrowed; without a byte order mark */
    bool is_over;
};

struct reader {
    yaml_parser_t *parser;
    struct str text;
    struct arena *arena;
    struct error *err;
};

/* What to do about an expression that YAML takes for one of its own signs. */
#define QUOTE_HINT "put the value in quotes, or use a block (|) and write it on the next line"

static int fail_at(struct reader *r, yaml_mark_t mark, const char *what)
{
    return error_set_at(r->err, STATUS_INVALID_ARGUMENT, (uint32_t)mark.line + 1,
                        (uint32_t)mark.column + 1, "YAML: %s", what);
}

static int fail_memory(struct reader *r)
{
    return error_set(r->err, STATUS_RESOURCE_EXHAUSTED, "the YAML text is too large");
}

/* The bytes at `offset` are none that YAML takes. */
static int fail_bytes(struct str text, size_t offset, struct error *err)
{
    uint32_t line = 1;
    uint32_t column = 1;
    uint32_t point;
    unsigned byte = offset < text.len ? (unsigned char)text.ptr[offset] : 0;
    for (size_t i = 0; i < offset && i < text.len; i++) {
        bool begins_point = ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
        line += text.ptr[i] == '\n';
        column = text.ptr[i] == '\n' ? 1 : column + begins_point;
    }
    if (byte == 0) {
        return error_set_at(err, STATUS_INVALID_ARGUMENT, line, column,
                            "YAML: a NUL character, which is not allowed");
    }
    if (utf8_decode(str_make(text.ptr + offset, text.len - offset), &point) == 0) {
        return error_set_at(err, STATUS_INVALID_ARGUMENT, line, column,
                            "YAML: the byte 0x%02x is not UTF-8; save the file in UTF-8", byte);
    }
    return error_set_at(err, STATUS_INVALID_ARGUMENT, line, column,
                        "YAML: the control character U+%04X is not allowed; in double quotes "
                        "write \\x and two digits",
                        (unsigned)point);
}

/* Where text stops to be UTF-8 without NUL; its length when it does not. */
static size_t bad_byte_at(struct str text)
{
    size_t at = 0;
    while (at < text.len && text.ptr[at] != '\0') {
        uint32_t ignored;
        size_t len = utf8_decode(str_make(text.ptr + at, text.len - at), &ignored);
        if (len == 0) {
            break;
        }
        at += len;
    }
    return at;
}

static bool text_names(const char *text, const char *word)
{
    return text && strstr(text, word);
}

/* libyaml's own complaint, made useful where it comes from an unquoted expression. */
static int fail_syntax(struct reader *r)
{
    const yaml_parser_t *p = r->parser;
    if (p->error == YAML_MEMORY_ERROR) {
        return fail_memory(r);
    }
    if (p->error == YAML_READER_ERROR && p->problem_offset < r->text.len) {
        return fail_bytes(r->text, p->problem_offset, r->err);
    }
    if (text_names(p->context, "tag") || text_names(p->problem, "tag") ||
        text_names(p->context, "anchor") || text_names(p->context, "alias")) {
        return fail_at(r, p->context_mark,
                       "what begins with '!', '&' or '*' is a YAML tag, anchor or alias, which is "
                       "not allowed; " QUOTE_HINT);
    }
    yaml_mark_t mark = p->problem_mark;
    return error_set_at(r->err, STATUS_INVALID_ARGUMENT, (uint32_t)mark.line + 1,
                        (uint32_t)mark.column + 1, "YAML: %s%s%s",
                        p->problem ? p->problem : "not well-formed", p->context ? " " : "",
                        p->context ? p->context : "");
}

static int next_event(struct reader *r, yaml_event_t *event)
{
    return yaml_parser_parse(r->parser, event) ? 0 : fail_syntax(r);
}

/* Anchors and tags may stand on scalars, lists and maps. */
static int check_properties(struct reader *r, const yaml_event_t *event, const yaml_char_t *anchor,
                            const yaml_char_t *tag)
{
    if (anchor) {
        return error_set_at(r->err, STATUS_INVALID_ARGUMENT, (uint32_t)event->start_mark.line + 1,
                            (uint32_t)event->start_mark.column + 1,
                            "YAML: '&%.60s' is an anchor, which is not allowed; " QUOTE_HINT,
                            (const char *)anchor);
    }
    if (tag) {
        return error_set_at(r->err, STATUS_INVALID_ARGUMENT, (uint32_t)event->start_mark.line + 1,
                            (uint32_t)event->start_mark.column + 1,
                            "YAML: '%.60s' is a tag, which is not allowed; " QUOTE_HINT,
                            (const char *)tag);
    }
    return 0;
}

static int copy_text(struct reader *r, const yaml_event_t *event, struct str *ret)
{
    struct str text = str_make(event->data.scalar.value, event->data.scalar.length);
    if (str_has_nul(text)) {
        return fail_at(r, event->start_mark, "text must not hold a NUL character");
    }
    char *copy = arena_strndup(r->arena, text.ptr, text.len);
    if (!copy) {
        return fail_memory(r);
    }
    *ret = str_make(copy, text.len);
    return 0;
}

/* YAML 1.2, core schema (10.3.2), but numbers as in JSON. */
static enum tree_type plain_type(struct str text)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    static const char *const bools[] = {"true", "True", "TRUE", "false", "False", "FALSE"};
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++) {
        if (str_is(text, nulls[i])) {
            return TREE_NULL;
        }
    }
    for (size_t i = 0; i < sizeof bools / sizeof bools[0]; i++) {
        if (str_is(text, bools[i])) {
            return TREE_BOOL;
        }
    }
    return tree_text_is_number(text) ? TREE_NUMBER : TREE_STRING;
}

static int read_scalar(struct reader *r, const yaml_event_t *event, struct tree_node *node)
{
    int status = check_properties(r, event, event->data.scalar.anchor, event->data.scalar.tag);
    if (status == 0) {
        status = copy_text(r, event, &node->text);
    }
    node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    node->type = node->is_plain ? plain_type(node->text) : TREE_STRING;
    return status;
}

static int read_node(struct reader *r, const yaml_event_t *event, unsigned depth,
                     struct tree_node **ret);

/* The key of a member; `event` is what stands where a key must be. */
static int read_key(struct reader *r, const yaml_event_t *event, struct tree_node *keys)
{
    if (event->type != YAML_SCALAR_EVENT) {
        return fail_at(r, event->start_mark,
                       event->type == YAML_ALIAS_EVENT ? "aliases are not allowed"
                                                       : "a key must be plain text");
    }
    int status = check_properties(r, event, event->data.scalar.anchor, event->data.scalar.tag);
    if (status == 0) {
        status = copy_text(r, event, &keys->key);
    }
    if (status == 0 && event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
        str_is(keys->key, "<<")) {
        status =
            fail_at(r, event->start_mark, "merge keys (<<) are not allowed; write the values out");
    }
    keys->key_line = (uint32_t)event->start_mark.line + 1;
    keys->key_column = (uint32_t)event->start_mark.column + 1;
    return status;
}

/* `event` begins the member: its key in a map, its value in a list. */
static int read_member(struct reader *r, const yaml_event_t *event, bool is_map, unsigned depth,
                       struct tree_node **ret)
{
    if (!is_map) {
        return read_node(r, event, depth + 1, ret);
    }
    struct tree_node keys = {0};
    yaml_event_t value;
    int status = read_key(r, event, &keys);
    if (status == 0) {
        status = next_event(r, &value);
    }
    if (status < 0) {
        return status;
    }
    status = read_node(r, &value, depth + 1, ret);
    yaml_event_delete(&value);
    if (status == 0) {
        (*ret)->key = keys.key;
        (*ret)->key_line = keys.key_line;
        (*ret)->key_column = keys.key_column;
    }
    return status;
}

static int read_members(struct reader *r, unsigned depth, struct tree_node *node)
{
    bool is_map = node->type == TREE_MAP;
    yaml_event_type_t end = is_map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT;
    struct tree_node **tail = &node->first;
    for (;;) {
        yaml_event_t event;
        int status = next_event(r, &event);
        if (status < 0) {
            return status;
        }
        bool is_end = event.type == end;
        status = is_end ? 0 : read_member(r, &event, is_map, depth, tail);
        yaml_event_delete(&event);
        if (is_end) {
            return is_map ? tree_check_duplicates(node, r->arena, r->err) : 0;
        }
        if (status < 0) {
            return status;
        }
        tail = &(*tail)->next;
        node->count++;
    }
}

static int read_container(struct reader *r, const yaml_event_t *event, unsigned depth,
                          struct tree_node *node)
{
    bool is_map = event->type == YAML_MAPPING_START_EVENT;
    node->type = is_map ? TREE_MAP : TREE_LIST;
    int status = is_map ? check_properties(r, event, event->data.mapping_start.anchor,
                                           event->data.mapping_start.tag)
                        : check_properties(r, event, event->data.sequence_start.anchor,
                                           event->data.sequence_start.tag);
    return status < 0 ? status : read_members(r, depth, node);
}

static int read_node(struct reader *r, const yaml_event_t *event, unsigned depth,
                     struct tree_node **ret)
{
    if (depth > TREE_DEPTH_MAX) {
        return fail_at(r, event->start_mark, "nested too deeply");
    }
    struct tree_node *node = arena_zalloc(r->arena, sizeof(*node));
    if (!node) {
        return fail_memory(r);
    }
    node->line = (uint32_t)event->start_mark.line + 1;
    node->column = (uint32_t)event->start_mark.column + 1;
    int status;
    if (event->type == YAML_ALIAS_EVENT) {
        status = error_set_at(r->err, STATUS_INVALID_ARGUMENT, node->line, node->column,
                              "YAML: '*%.60s' is an alias, which is not allowed; " QUOTE_HINT,
                              (const char *)event->data.alias.anchor);
    } else if (event->type == YAML_SCALAR_EVENT) {
        status = read_scalar(r, event, node);
    } else {
        status = read_container(r, event, depth, node);
    }
    if (status == 0) {
        *ret = node;
    }
    return status;
}

int yaml_stream_open(struct str text, struct yaml_stream **ret, struct error *err)
{
    if (str_starts_with(text, STR("\xef\xbb\xbf"))) { /* a byte order mark */
        text = str_make(text.ptr + 3, text.len - 3);
    }
    size_t bad = bad_byte_at(text);
    if (bad < text.len) {
        return fail_bytes(text, bad, err);
    }
    struct yaml_stream *stream = calloc(1, sizeof(*stream));
    if (!stream || !yaml_parser_initialize(&stream->parser)) {
        free(stream);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "YAML: out of memory");
    }
    yaml_parser_set_encoding(&stream->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&stream->parser,
                                 (const unsigned char *)(text.len > 0 ? text.ptr : ""), text.len);
    stream->text = text;
    *ret = stream;
    return 0;
}

void yaml_stream_close(struct yaml_stream *stream)
{
    if (stream) {
        yaml_parser_delete(&stream->parser);
        free(stream);
    }
}

/* One event between documents, or a document's root. */
static int stream_step(struct yaml_stream *stream, struct reader *r, struct tree_node **ret)
{
    yaml_event_t event;
    int status = next_event(r, &event);
    if (status < 0) {
        return status;
    }
    switch (event.type) {
    case YAML_STREAM_END_EVENT:
        stream->is_over = true;
        break;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    case YAML_ALIAS_EVENT:
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_START_EVENT:
    case YAML_MAPPING_END_EVENT:
    default:
        status = read_node(r, &event, 1, ret);
        break;
    }
    yaml_event_delete(&event);
    return status;
}

int yaml_stream_next(struct yaml_stream *stream, struct arena *arena, const struct tree_node **ret,
                     struct error *err)
{
    struct reader r = {.parser = &stream->parser, .text = stream->text, .arena = arena, .err = err};
    *ret = NULL;
    while (!stream->is_over) {
        struct tree_node *root = NULL;
        int status = stream_step(stream, &r, &root);
        if (status < 0) {
            stream->is_over = true;
            return status;
        }
        /* A document of nothing but comments is a null. */
        if (root && !(root->type == TREE_NULL && root->text.len == 0)) {
            *ret = root;
            return 0;
        }
    }
    return 0;
}

int yaml_read(struct str text, struct arena *arena, const struct tree_node **ret, struct error *err)
{
    struct yaml_stream *stream;
    int status = yaml_stream_open(text, &stream, err);
    if (status < 0) {
        return status;
    }
    const struct tree_node *root = NULL;
    const struct tree_node *second = NULL;
    status = yaml_stream_next(stream, arena, &root, err);
    if (status == 0 && !root) {
        status = error_set_at(err, STATUS_INVALID_ARGUMENT, 1, 1, "YAML: the text is empty");
    }
    if (status == 0) {
        status = yaml_stream_next(stream, arena, &second, err);
    }
    if (status == 0 && second) {
        status = error_set_at(err, STATUS_INVALID_ARGUMENT, second->line, second->column,
                              "YAML: a second document, where only one is expected");
    }
    yaml_stream_close(stream);
    if (status == 0) {
        *ret = root;
    }
    return status;
}
