#include "gateway/text/json_reader.h"

#include "policy/base/utf8.h"

struct reader {
    const char *next;
    const char *end;
    const char *line_start;
    uint32_t line;
    struct arena *arena;
    struct error *err;
};

static uint32_t reader_column(const struct reader *r)
{
    return (uint32_t)(r->next - r->line_start) + 1;
}

static int fail(struct reader *r, const char *what)
{
    return error_set_at(r->err, STATUS_INVALID_ARGUMENT, r->line, reader_column(r), "JSON: %s",
                        what);
}

static int fail_memory(struct reader *r)
{
    return error_set(r->err, STATUS_RESOURCE_EXHAUSTED, "the JSON text is too large");
}

static void skip_space(struct reader *r)
{
    for (; r->next < r->end; r->next++) {
        char c = *r->next;
        if (c == '\n') {
            r->line++;
            r->line_start = r->next + 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            return;
        }
    }
}

static bool at(const struct reader *r, char c)
{
    return r->next < r->end && *r->next == c;
}

/* The value of the four hex digits at r->next, or -1; takes them. */
static int read_hex4(struct reader *r)
{
    int v = 0;
    if (r->end - r->next < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        char c = *r->next++;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        v = v * 16 + digit;
    }
    return v;
}

/* After "\u": one code point, of one escape or of a pair of surrogates. */
static int read_unicode_escape(struct reader *r, char **out)
{
    int c = read_hex4(r);
    if (c < 0) {
        return fail(r, "\\u needs four hex digits");
    }
    if (c == 0) {
        return fail(r, "text must not hold a NUL character");
    }
    uint32_t code_point = (uint32_t)c;
    if (c >= 0xd800 && c <= 0xdbff && r->end - r->next >= 2 && r->next[0] == '\\' &&
        r->next[1] == 'u') {
        r->next += 2;
        int low = read_hex4(r);
        if (low < 0xdc00 || low > 0xdfff) {
            return fail(r, "a surrogate without its other half");
        }
        code_point = 0x10000 + (((uint32_t)c - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
    }
    size_t n = utf8_encode(code_point, *out);
    if (n == 0) {
        return fail(r, "a surrogate without its other half");
    }
    *out += n;
    return 0;
}

static int read_escape(struct reader *r, char **out)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    r->next++; /* the backslash; the closing quote stands behind it, so there is one more */
    char c = *r->next;
    if (c == 'u') {
        r->next++;
        return read_unicode_escape(r, out);
    }
    const char *found = c ? strchr(from, c) : NULL;
    if (!found) {
        return fail(r, "unknown escape in text");
    }
    r->next++;
    *(*out)++ = to[found - from];
    return 0;
}

/* r->next is the opening quote. */
static int read_string(struct reader *r, struct str *ret)
{
    const char *close = r->next + 1;
    while (close < r->end && *close != '"') {
        close += *close == '\\' ? 2 : 1;
    }
    if (close >= r->end) {
        return fail(r, "text without its closing quote");
    }
    r->next++;
    /* An escape is never shorter than what it stands for; utf8_encode writes up to 4 bytes. */
    char *text = arena_alloc(r->arena, (size_t)(close - r->next) + 4);
    if (!text) {
        return fail_memory(r);
    }
    char *out = text;
    while (r->next < close) {
        unsigned char c = (unsigned char)*r->next;
        if (c < 0x20) {
            return fail(r, "control character in text; write it as an escape");
        }
        if (c != '\\') {
            *out++ = *r->next++;
            continue;
        }
        int status = read_escape(r, &out);
        if (status < 0) {
            return status;
        }
    }
    if (r->next != close) { /* an \u escape ran over the closing quote */
        return fail(r, "\\u needs four hex digits");
    }
    r->next++;
    *out = '\0';
    *ret = str_make(text, (size_t)(out - text));
    return 0;
}

static int read_number(struct reader *r, struct tree_node *node)
{
    const char *end = r->next;
    while (end < r->end && ((*end >= '0' && *end <= '9') || *end == '-' || *end == '+' ||
                            *end == '.' || *end == 'e' || *end == 'E')) {
        end++;
    }
    struct str text = str_make(r->next, (size_t)(end - r->next));
    if (!tree_text_is_number(text)) {
        return fail(r, text.len > 0 ? "not a number" : "unexpected character");
    }
    char *copy = arena_strndup(r->arena, text.ptr, text.len);
    if (!copy) {
        return fail_memory(r);
    }
    node->type = TREE_NUMBER;
    node->text = str_make(copy, text.len);
    r->next = end;
    return 0;
}

static bool read_word(struct reader *r, const char *word, enum tree_type type,
                      struct tree_node *node)
{
    struct str w = str_from(word);
    if ((size_t)(r->end - r->next) < w.len || memcmp(r->next, w.ptr, w.len) != 0) {
        return false;
    }
    node->type = type;
    node->text = w;
    r->next += w.len;
    return true;
}

static int read_value(struct reader *r, unsigned depth, struct tree_node **ret);

/* A key and its colon. */
static int read_key(struct reader *r, struct str *key, uint32_t *line, uint32_t *column)
{
    skip_space(r);
    *line = r->line;
    *column = reader_column(r);
    if (!at(r, '"')) {
        return fail(r, "expected a key in quotes");
    }
    int status = read_string(r, key);
    if (status < 0) {
        return status;
    }
    skip_space(r);
    if (!at(r, ':')) {
        return fail(r, "expected ':' after a key");
    }
    r->next++;
    return 0;
}

static int read_member(struct reader *r, unsigned depth, bool is_map, struct tree_node **ret)
{
    struct str key = STR_NONE;
    uint32_t line = 0;
    uint32_t column = 0;
    int status = is_map ? read_key(r, &key, &line, &column) : 0;
    if (status == 0) {
        status = read_value(r, depth + 1, ret);
    }
    if (status == 0) {
        (*ret)->key = key;
        (*ret)->key_line = line;
        (*ret)->key_column = column;
    }
    return status;
}

/* r->next is the opening bracket. */
static int read_container(struct reader *r, unsigned depth, struct tree_node *node)
{
    bool is_map = *r->next == '{';
    char close = is_map ? '}' : ']';
    node->type = is_map ? TREE_MAP : TREE_LIST;
    struct tree_node **tail = &node->first;
    r->next++;
    skip_space(r);
    if (at(r, close)) {
        r->next++;
        return 0;
    }
    for (;;) {
        int status = read_member(r, depth, is_map, tail);
        if (status < 0) {
            return status;
        }
        tail = &(*tail)->next;
        node->count++;
        skip_space(r);
        if (at(r, close)) {
            r->next++;
            return is_map ? tree_check_duplicates(node, r->arena, r->err) : 0;
        }
        if (!at(r, ',')) {
            return fail(r, r->next == r->end ? "the text ends too early"
                           : is_map          ? "expected ',' or '}'"
                                             : "expected ',' or ']'");
        }
        r->next++;
    }
}

static int read_value(struct reader *r, unsigned depth, struct tree_node **ret)
{
    skip_space(r);
    if (r->next == r->end) {
        return fail(r, "the text ends too early");
    }
    if (depth > TREE_DEPTH_MAX) {
        return fail(r, "nested too deeply");
    }
    struct tree_node *node = arena_zalloc(r->arena, sizeof(*node));
    if (!node) {
        return fail_memory(r);
    }
    node->line = r->line;
    node->column = reader_column(r);
    int status = 0;
    if (at(r, '{') || at(r, '[')) {
        status = read_container(r, depth, node);
    } else if (at(r, '"')) {
        node->type = TREE_STRING;
        status = read_string(r, &node->text);
    } else if (!read_word(r, "true", TREE_BOOL, node) && !read_word(r, "false", TREE_BOOL, node) &&
               !read_word(r, "null", TREE_NULL, node)) {
        status = read_number(r, node);
    }
    if (status == 0) {
        *ret = node;
    }
    return status;
}

int json_read(struct str text, struct arena *arena, const struct tree_node **ret, struct error *err)
{
    struct reader r = {
        .next = text.ptr,
        .end = text.ptr + text.len,
        .line_start = text.ptr,
        .line = 1,
        .arena = arena,
        .err = err,
    };
    if (text.len == 0) {
        return error_set_at(err, STATUS_INVALID_ARGUMENT, 1, 1, "JSON: the text is empty");
    }
    if (!utf8_is_valid(text)) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "JSON: the text is not valid UTF-8");
    }
    struct tree_node *root = NULL;
    int status = read_value(&r, 1, &root);
    if (status < 0) {
        return status;
    }
    skip_space(&r);
    if (r.next != r.end) {
        return fail(&r, "something stands after the value");
    }
    *ret = root;
    return 0;
}
