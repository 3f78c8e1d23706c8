#include "policy/cel/lex.h"

#include "policy/base/utf8.h"

static int char_at(const struct lexer *lx, uint32_t pos)
{
    return pos < lx->c->text.len ? (unsigned char)lx->c->text.ptr[pos] : -1;
}

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int hex_value(int c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool lex_is_reserved(struct str word)
{
    static const char *const words[] = {
        "as",  "break", "const",     "continue", "else",   "for", "function", "if",   "import",
        "let", "loop",  "namespace", "package",  "return", "var", "void",     "while"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (str_is(word, words[i])) {
            return true;
        }
    }
    return false;
}

static struct token token_make(const struct lexer *lx, uint8_t kind, uint32_t begin)
{
    return (struct token){.kind = kind,
                          .begin = begin,
                          .end = lx->pos,
                          .text = str_make(lx->c->text.ptr + begin, lx->pos - begin)};
}

static struct token token_error(void)
{
    return (struct token){.kind = TOKEN_ERROR};
}

static void skip_blank(struct lexer *lx)
{
    for (;;) {
        int c = char_at(lx, lx->pos);
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f') {
            lx->pos++;
        } else if (c == '/' && char_at(lx, lx->pos + 1) == '/') {
            while (char_at(lx, lx->pos) != -1 && char_at(lx, lx->pos) != '\n') {
                lx->pos++;
            }
        } else {
            return;
        }
    }
}

static void skip_digits(struct lexer *lx)
{
    while (is_digit(char_at(lx, lx->pos))) {
        lx->pos++;
    }
}

static bool skip_exponent(struct lexer *lx)
{
    uint32_t pos = lx->pos;
    if ((char_at(lx, pos) | 32) != 'e') {
        return false;
    }
    pos++;
    if (char_at(lx, pos) == '+' || char_at(lx, pos) == '-') {
        pos++;
    }
    if (!is_digit(char_at(lx, pos))) {
        return false;
    }
    lx->pos = pos;
    skip_digits(lx);
    return true;
}

static struct token lex_number(struct lexer *lx)
{
    uint32_t begin = lx->pos;
    uint8_t kind = TOKEN_INT;
    if (char_at(lx, begin) == '0' && char_at(lx, begin + 1) == 'x' &&
        hex_value(char_at(lx, begin + 2)) >= 0) {
        lx->pos += 2;
        while (hex_value(char_at(lx, lx->pos)) >= 0) {
            lx->pos++;
        }
    } else {
        skip_digits(lx);
        if (char_at(lx, lx->pos) == '.' && is_digit(char_at(lx, lx->pos + 1))) {
            kind = TOKEN_DOUBLE;
            lx->pos++;
            skip_digits(lx);
        }
        if (skip_exponent(lx)) {
            kind = TOKEN_DOUBLE;
        }
    }
    if (kind == TOKEN_INT && (char_at(lx, lx->pos) | 32) == 'u') {
        lx->pos++;
        kind = TOKEN_UINT;
    }
    struct token t = token_make(lx, kind, begin);
    if (is_letter(char_at(lx, lx->pos)) || is_digit(char_at(lx, lx->pos))) {
        compile_fail(lx->c, begin, "bad number '%.*s%c'", STR_ARG(t.text), char_at(lx, lx->pos));
        return token_error();
    }
    return t;
}

struct string_form {
    bool raw;
    bool bytes;
    bool triple;
    int quote;
};

/* Where decoded bytes go; never longer than the source. */
struct decoded {
    char *out;
    size_t len;
};

static void decoded_add_code_point(struct decoded *d, uint32_t code_point)
{
    d->len += utf8_encode(code_point, d->out + d->len);
}

static bool bad_escape(struct lexer *lx, uint32_t at, const char *why)
{
    compile_fail(lx->c, at, "bad escape in a text: %s", why);
    return false;
}

/* Exactly `digits` digits of the base, at lx->pos. */
static bool read_digits(struct lexer *lx, unsigned digits, uint32_t base, uint32_t *ret)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < digits; i++) {
        int d = hex_value(char_at(lx, lx->pos));
        if (d < 0 || (uint32_t)d >= base) {
            return false;
        }
        v = v * base + (uint32_t)d;
        lx->pos++;
    }
    *ret = v;
    return true;
}

static bool lex_numeric_escape(struct lexer *lx, struct string_form form, int c, uint32_t at,
                               struct decoded *d)
{
    uint32_t v = 0;
    bool unicode = c == 'u' || c == 'U';
    if (unicode && form.bytes) {
        return bad_escape(lx, at, "\\u and \\U are not for bytes");
    }
    bool ok;
    if (is_digit(c)) {
        lx->pos--;
        ok = c <= '3' && read_digits(lx, 3, 8, &v);
    } else {
        ok = read_digits(lx, c == 'u' ? 4 : c == 'U' ? 8 : 2, 16, &v);
    }
    if (!ok) {
        return bad_escape(lx, at, "wrong number of digits");
    }
    if (form.bytes) {
        d->out[d->len++] = (char)v;
        return true;
    }
    if (v > 0x10FFFF || (v >= 0xD800 && v <= 0xDFFF)) {
        return bad_escape(lx, at, "not a Unicode code point");
    }
    decoded_add_code_point(d, v);
    return true;
}

/* At the character after the backslash. */
static bool lex_escape(struct lexer *lx, struct string_form form, struct decoded *d)
{
    static const char plain[] = "abfnrtv\\?\"'`";
    static const char meaning[] = "\a\b\f\n\r\t\v\\?\"'`";
    uint32_t at = lx->pos - 1;
    int c = char_at(lx, lx->pos);
    lx->pos++;
    for (size_t i = 0; i < sizeof plain - 1; i++) {
        if (c == plain[i]) {
            d->out[d->len++] = meaning[i];
            return true;
        }
    }
    if (c == 'x' || c == 'X' || c == 'u' || c == 'U' || (c >= '0' && c <= '7')) {
        return lex_numeric_escape(lx, form, c, at, d);
    }
    return bad_escape(lx, at, "unknown character after the backslash");
}

static bool at_closing_quote(const struct lexer *lx, struct string_form form)
{
    if (char_at(lx, lx->pos) != form.quote) {
        return false;
    }
    return !form.triple ||
           (char_at(lx, lx->pos + 1) == form.quote && char_at(lx, lx->pos + 2) == form.quote);
}

/* Bytes up to the closing quote as written: escapes never decode to more. */
static size_t raw_length(struct lexer lx, struct string_form form)
{
    uint32_t begin = lx.pos;
    while (char_at(&lx, lx.pos) != -1 && !at_closing_quote(&lx, form)) {
        lx.pos += char_at(&lx, lx.pos) == '\\' && !form.raw ? 2 : 1;
    }
    return lx.pos - begin;
}

static struct token lex_string_body(struct lexer *lx, struct string_form form, uint32_t begin)
{
    struct decoded d = {.out = arena_alloc(lx->c->arena, raw_length(*lx, form) + 4)};
    if (!d.out) {
        compile_out_of_memory(lx->c);
        return token_error();
    }
    while (!at_closing_quote(lx, form)) {
        int c = char_at(lx, lx->pos);
        if (c == -1 || (!form.triple && (c == '\n' || c == '\r'))) {
            compile_fail(lx->c, begin, "text without closing quote");
            return token_error();
        }
        lx->pos++;
        if (c == '\\' && !form.raw) {
            if (!lex_escape(lx, form, &d)) {
                return token_error();
            }
        } else {
            d.out[d.len++] = (char)c;
        }
    }
    lx->pos += form.triple ? 3 : 1;
    struct token t = token_make(lx, form.bytes ? TOKEN_BYTES : TOKEN_STRING, begin);
    t.text = str_make(d.out, d.len);
    return t;
}

/* The length of a prefix like rb that a quote follows, or -1. */
static int string_prefix(const struct lexer *lx, struct string_form *form)
{
    *form = (struct string_form){0};
    for (int n = 0; n < 3; n++) {
        int c = char_at(lx, lx->pos + (uint32_t)n);
        if (c == '"' || c == '\'') {
            form->quote = c;
            return n;
        }
        if ((c | 32) == 'r' && !form->raw) {
            form->raw = true;
        } else if ((c | 32) == 'b' && !form->bytes) {
            form->bytes = true;
        } else {
            return -1;
        }
    }
    return -1;
}

static struct token lex_string(struct lexer *lx, struct string_form form, int prefix)
{
    uint32_t begin = lx->pos;
    lx->pos += (uint32_t)prefix;
    form.triple = char_at(lx, lx->pos + 1) == form.quote && char_at(lx, lx->pos + 2) == form.quote;
    lx->pos += form.triple ? 3 : 1;
    return lex_string_body(lx, form, begin);
}

static struct token lex_word(struct lexer *lx)
{
    uint32_t begin = lx->pos;
    while (is_letter(char_at(lx, lx->pos)) || is_digit(char_at(lx, lx->pos))) {
        lx->pos++;
    }
    struct token t = token_make(lx, TOKEN_IDENT, begin);
    if (str_is(t.text, "true")) {
        t.kind = TOKEN_TRUE;
    } else if (str_is(t.text, "false")) {
        t.kind = TOKEN_FALSE;
    } else if (str_is(t.text, "null")) {
        t.kind = TOKEN_NULL;
    } else if (str_is(t.text, "in")) {
        t.kind = TOKEN_IN;
    }
    return t;
}

static struct token lex_quoted(struct lexer *lx)
{
    uint32_t begin = lx->pos++;
    for (;;) {
        int c = char_at(lx, lx->pos);
        if (c == '`') {
            break;
        }
        if (!is_letter(c) && !is_digit(c) && c != '.' && c != '-' && c != '/' && c != ' ') {
            compile_fail(
                lx->c, begin,
                "a name in backquotes holds letters, digits, '_', '.', '-', '/' and space");
            return token_error();
        }
        lx->pos++;
    }
    lx->pos++;
    struct token t = token_make(lx, TOKEN_QUOTED, begin);
    t.text = str_make(t.text.ptr + 1, t.text.len - 2);
    if (t.text.len == 0) {
        compile_fail(lx->c, begin, "empty name in backquotes");
        return token_error();
    }
    return t;
}

static struct token lex_punctuation(struct lexer *lx)
{
    static const struct {
        const char *text;
        uint8_t kind;
    } table[] = {
        {"&&", TOKEN_AND},     {"||", TOKEN_OR},    {"==", TOKEN_EQ},    {"!=", TOKEN_NE},
        {"<=", TOKEN_LE},      {">=", TOKEN_GE},    {"<", TOKEN_LT},     {">", TOKEN_GT},
        {"!", TOKEN_NOT},      {".", TOKEN_DOT},    {",", TOKEN_COMMA},  {":", TOKEN_COLON},
        {"?", TOKEN_QUESTION}, {"(", TOKEN_LPAREN}, {")", TOKEN_RPAREN}, {"[", TOKEN_LBRACKET},
        {"]", TOKEN_RBRACKET}, {"{", TOKEN_LBRACE}, {"}", TOKEN_RBRACE}, {"+", TOKEN_PLUS},
        {"-", TOKEN_MINUS},    {"*", TOKEN_STAR},   {"/", TOKEN_SLASH},  {"%", TOKEN_PERCENT}};
    uint32_t begin = lx->pos;
    struct str rest = str_make(lx->c->text.ptr + begin, lx->c->text.len - begin);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (str_starts_with(rest, str_from(table[i].text))) {
            lx->pos += (uint32_t)strlen(table[i].text);
            return token_make(lx, table[i].kind, begin);
        }
    }
    const char *hint = rest.ptr[0] == '='   ? ": write '==' to compare"
                       : rest.ptr[0] == '&' ? ": write '&&'"
                       : rest.ptr[0] == '|' ? ": write '||'"
                                            : "";
    if (rest.ptr[0] >= ' ' && rest.ptr[0] < 127) {
        compile_fail(lx->c, begin, "unexpected character '%c'%s", rest.ptr[0], hint);
    } else {
        uint32_t point = 0;
        (void)utf8_decode(rest, &point);
        /* What word processors make of quotes. */
        bool is_quote = (point >= 0x2018 && point <= 0x201F) || point == 0xAB || point == 0xBB;
        compile_fail(lx->c, begin, "unexpected character U+%04X outside of a text%s",
                     (unsigned)point, is_quote ? ": write ' or \"" : "");
    }
    return token_error();
}

struct token lex_next(struct lexer *lx)
{
    skip_blank(lx);
    int c = char_at(lx, lx->pos);
    if (c == -1) {
        return token_make(lx, TOKEN_END, lx->pos);
    }
    struct string_form form;
    int prefix = string_prefix(lx, &form);
    if (prefix >= 0) {
        return lex_string(lx, form, prefix);
    }
    if (is_digit(c) || (c == '.' && is_digit(char_at(lx, lx->pos + 1)))) {
        return lex_number(lx);
    }
    if (is_letter(c)) {
        return lex_word(lx);
    }
    return c == '`' ? lex_quoted(lx) : lex_punctuation(lx);
}
