#include "policy/lib/regex.h"

#include <stdint.h>

#include "policy/base/utf8.h"

/* The subset of RE2's syntax (https://github.com/google/re2/wiki/Syntax) that PCRE2 reads alike,
 * checked by position; \s and \v are rewritten, since PCRE2 means more by them. */

enum { OUT_FACTOR = 16, LITERAL_FACTOR = 2 };

struct frame {
    size_t product; /* largest product of counts inside the group so far */
    size_t start;   /* where the group's text begins */
};

struct scanner {
    struct arena *arena;
    struct str in;
    size_t at;
    char *out;
    size_t len;
    size_t groups;
    const char *why;
    struct frame frames[REGEX_NESTING_MAX + 1];
    size_t depth;
    size_t atom_product; /* of the atom that a quantifier would repeat; 0: there is none */
};

static int peek(const struct scanner *s, size_t ahead)
{
    return s->at + ahead < s->in.len ? (unsigned char)s->in.ptr[s->at + ahead] : -1;
}

static bool reject(struct scanner *s, const char *why)
{
    if (!s->why) {
        const char *text = arena_printf(s->arena, "%s at byte %zu", why, s->at);
        s->why = text ? text : why;
    }
    return false;
}

/* Copies n bytes from the pattern. The output is sized for the worst rewriting. */
static bool copy(struct scanner *s, size_t n)
{
    memcpy(s->out + s->len, s->in.ptr + s->at, n);
    s->len += n;
    s->at += n;
    return true;
}

/* Writes `text` in place of n bytes of the pattern. */
static bool rewrite(struct scanner *s, size_t n, const char *text)
{
    size_t len = strlen(text);
    memcpy(s->out + s->len, text, len);
    s->len += len;
    s->at += n;
    return true;
}

static bool is_hex(int c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f');
}

static bool is_letter(int c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

static bool is_punctuation(int c)
{
    return c > ' ' && c < 127 && !is_letter(c) && !(c >= '0' && c <= '9');
}

/* \xHH or \x{H...} */
static bool scan_hex(struct scanner *s)
{
    if (peek(s, 2) != '{') {
        return is_hex(peek(s, 2)) && is_hex(peek(s, 3)) ? copy(s, 4)
                                                        : reject(s, "\\x wants two hex digits");
    }
    size_t n = 3;
    uint32_t v = 0;
    while (is_hex(peek(s, n)) && n < 9) {
        int c = peek(s, n++);
        v = v * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    if (n == 3 || peek(s, n) != '}' || v > 0x10FFFF || (v >= 0xD800 && v <= 0xDFFF)) {
        return reject(s, "bad \\x{...}");
    }
    return copy(s, n + 1);
}

/* \0, \01, \012: RE2 takes up to two more octal digits after the 0; \123 has three. */
static bool scan_octal(struct scanner *s)
{
    int c = peek(s, 1);
    if (c == '0') {
        size_t n = 2;
        while (n < 4 && peek(s, n) >= '0' && peek(s, n) <= '7') {
            n++;
        }
        return copy(s, n);
    }
    bool three = c >= '1' && c <= '3' && peek(s, 2) >= '0' && peek(s, 2) <= '7' &&
                 peek(s, 3) >= '0' && peek(s, 3) <= '7';
    return three ? copy(s, 4) : reject(s, "back-references are not supported");
}

/* \pL, \p{Greek}, \P{^Lu}: one letter, two letters, or a script's name. */
static bool scan_property(struct scanner *s)
{
    if (peek(s, 2) != '{') {
        return strchr("LMNPSZC", peek(s, 2)) && peek(s, 2) > 0 ? copy(s, 3) : reject(s, "bad \\p");
    }
    size_t n = 3 + (peek(s, 3) == '^');
    size_t letters = 0;
    for (; is_letter(peek(s, n)) || (letters > 0 && peek(s, n) == '_'); n++) {
        letters++;
    }
    bool upper_first = peek(s, 3 + (peek(s, 3) == '^')) <= 'Z';
    if (letters == 0 || !upper_first || peek(s, n) != '}') {
        return reject(s, "bad \\p{...}");
    }
    return copy(s, n + 1);
}

/* An escape; in a class some mean something else. */
static bool scan_escape(struct scanner *s, bool in_class)
{
    int c = peek(s, 1);
    switch (c) {
    case 's':
        return rewrite(s, 2, in_class ? "\\t\\n\\f\\r " : "[\\t\\n\\f\\r ]");
    case 'S':
        return in_class ? reject(s, "\\S inside of brackets") : rewrite(s, 2, "[^\\t\\n\\f\\r ]");
    case 'v':
        return rewrite(s, 2, "\\x0b");
    case 'a':
    case 'f':
    case 't':
    case 'n':
    case 'r':
    case 'd':
    case 'D':
    case 'w':
    case 'W':
        return copy(s, 2);
    case 'p':
    case 'P':
        return scan_property(s);
    case 'x':
        return scan_hex(s);
    default:
        break;
    }
    if (c >= '0' && c <= '9') {
        return scan_octal(s);
    }
    if (!in_class && (c == 'A' || c == 'z' || c == 'b' || c == 'B')) {
        s->atom_product = 0;
        return copy(s, 2);
    }
    return is_punctuation(c) ? copy(s, 2) : reject(s, "unsupported escape");
}

/* One character at s->at, which may be several bytes. */
static bool copy_point(struct scanner *s)
{
    uint32_t ignored;
    size_t n = utf8_decode(str_make(s->in.ptr + s->at, s->in.len - s->at), &ignored);
    return n > 0 ? copy(s, n) : reject(s, "ill-formed UTF-8");
}

/* [:alpha:] and [:^alpha:] inside of brackets. */
static bool scan_posix_name(struct scanner *s)
{
    static const char *const names[] = {"alnum", "alpha", "ascii", "blank", "cntrl",
                                        "digit", "graph", "lower", "print", "punct",
                                        "space", "upper", "word",  "xdigit"};
    size_t n = 2 + (peek(s, 2) == '^');
    struct str rest = str_make(s->in.ptr + s->at + n, s->in.len - s->at - n);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct str name = str_from(names[i]);
        if (str_starts_with(rest, name) && peek(s, n + name.len) == ':' &&
            peek(s, n + name.len + 1) == ']') {
            return copy(s, n + name.len + 2);
        }
    }
    return reject(s, "unknown character class");
}

/* One end of a range, or a set such as \d. */
static bool scan_class_item(struct scanner *s, bool *ret_is_set)
{
    int c = peek(s, 0);
    *ret_is_set = false;
    if (c == '\\') {
        int next = peek(s, 1);
        *ret_is_set = next > 0 && strchr("sdDwWpP", next);
        return scan_escape(s, true);
    }
    if (c == '[' && peek(s, 1) == ':') {
        *ret_is_set = true;
        return scan_posix_name(s);
    }
    if (c == '[' && (peek(s, 1) == '.' || peek(s, 1) == '=')) {
        return reject(s, "collating elements are not supported");
    }
    if (c == '[') {
        /* PCRE2 reads some things after an inner '[' that RE2 does not. */
        return rewrite(s, 1, "\\[");
    }
    return copy_point(s);
}

static bool scan_class(struct scanner *s)
{
    (void)copy(s, 1);
    if (peek(s, 0) == '^') {
        (void)copy(s, 1);
    }
    for (bool first = true; first || peek(s, 0) != ']'; first = false) {
        bool is_set;
        if (peek(s, 0) == -1) {
            return reject(s, "missing ']'");
        }
        if (first && peek(s, 0) == ']') {
            (void)rewrite(s, 1, "\\]");
            continue;
        }
        if (!scan_class_item(s, &is_set)) {
            return false;
        }
        bool range = peek(s, 0) == '-' && peek(s, 1) != ']' && peek(s, 1) != -1;
        if (!range) {
            continue;
        }
        (void)copy(s, 1);
        bool end_is_set;
        if (is_set || !scan_class_item(s, &end_is_set) || end_is_set) {
            return reject(s, "bad range in brackets");
        }
    }
    return copy(s, 1);
}

/* (?P<name>, (?<name>: always written as the first form. */
static bool scan_group_name(struct scanner *s, size_t at)
{
    size_t n = at;
    while (is_letter(peek(s, n)) || peek(s, n) == '_' ||
           (n > at && peek(s, n) >= '0' && peek(s, n) <= '9')) {
        n++;
    }
    /* The name itself has no use here, and PCRE2 limits its length: a plain group will do. */
    return n > at && peek(s, n) == '>' ? rewrite(s, n + 1, "(") : reject(s, "bad group name");
}

/* (?flags) and (?flags:...), flags among imsU with one '-'. False when it is no group. */
static bool scan_flags(struct scanner *s, bool *ret_opens)
{
    size_t n = 2;
    size_t flags = 0;
    bool minus = false;
    for (;; n++) {
        int c = peek(s, n);
        if (c == '-' && !minus) {
            minus = true;
            flags = 0;
        } else if (c == 'i' || c == 'm' || c == 's' || c == 'U') {
            flags++;
        } else {
            break;
        }
    }
    *ret_opens = peek(s, n) == ':';
    bool colon_only = n == 2 && *ret_opens;
    if ((!*ret_opens && peek(s, n) != ')') || (flags == 0 && !colon_only)) {
        return reject(s, "unsupported group");
    }
    return copy(s, n + 1);
}

static bool open_group(struct scanner *s)
{
    bool opens = true;
    bool captures = true;
    if (peek(s, 1) == '*') {
        return reject(s, "verbs are not supported");
    }
    if (peek(s, 1) != '?') {
        (void)copy(s, 1);
    } else if ((peek(s, 2) == 'P' && peek(s, 3) == '<') ||
               (peek(s, 2) == '<' && peek(s, 3) != '=' && peek(s, 3) != '!')) {
        if (!scan_group_name(s, peek(s, 2) == 'P' ? 4 : 3)) {
            return false;
        }
    } else {
        captures = false;
        if (!scan_flags(s, &opens)) {
            return false;
        }
    }
    s->groups += captures;
    if (s->groups > REGEX_GROUPS_MAX) {
        return reject(s, "too many groups");
    }
    s->atom_product = 0;
    if (!opens) {
        return true;
    }
    if (s->depth == REGEX_NESTING_MAX) {
        return reject(s, "groups nested too deeply");
    }
    s->frames[++s->depth] = (struct frame){.product = 1};
    return true;
}

static bool close_group(struct scanner *s)
{
    if (s->depth == 0) {
        return reject(s, "unmatched ')'");
    }
    s->atom_product = s->frames[s->depth--].product;
    return copy(s, 1);
}

/* {n}, {n,} or {n,m} at s->at: its length, or 0 when it is a literal brace. */
static size_t repeat_length(const struct scanner *s, size_t *ret_most)
{
    size_t low = 0;
    size_t high = 0;
    size_t n = 1;
    size_t digits = 0;
    for (; peek(s, n) >= '0' && peek(s, n) <= '9'; n++, digits++) {
        low = low > 100000 ? low : low * 10 + (size_t)(peek(s, n) - '0');
    }
    high = low;
    if (digits == 0) {
        return 0;
    }
    if (peek(s, n) == ',') {
        n++;
        size_t before = n;
        size_t v = 0;
        for (; peek(s, n) >= '0' && peek(s, n) <= '9'; n++) {
            v = v > 100000 ? v : v * 10 + (size_t)(peek(s, n) - '0');
        }
        high = n > before ? v : low;
        if (n > before && v < low) {
            high = REGEX_REPEAT_MAX + 1;
        }
    }
    *ret_most = high > low ? high : low;
    return peek(s, n) == '}' ? n + 1 : 0;
}

static bool scan_quantifier(struct scanner *s, size_t len, size_t most)
{
    if (s->atom_product == 0) {
        return reject(s, "nothing to repeat");
    }
    size_t product = s->atom_product * (most > 0 ? most : 1);
    if (product > REGEX_REPEAT_MAX) {
        return reject(s, "repeated more than 1000 times");
    }
    (void)copy(s, len);
    if (peek(s, 0) == '?') {
        (void)copy(s, 1);
    }
    size_t ignored;
    if (peek(s, 0) == '+' || peek(s, 0) == '*' || peek(s, 0) == '?' ||
        (peek(s, 0) == '{' && repeat_length(s, &ignored) > 0)) {
        return reject(s, "a repetition of a repetition");
    }
    struct frame *f = &s->frames[s->depth];
    f->product = product > f->product ? product : f->product;
    s->atom_product = 0;
    return true;
}

/* \Q...\E: each character as a literal. */
static bool scan_literal(struct scanner *s)
{
    s->at += 2;
    while (peek(s, 0) != -1) {
        if (peek(s, 0) == '\\' && peek(s, 1) == 'E') {
            s->at += 2;
            return true;
        }
        if (is_punctuation(peek(s, 0))) {
            s->out[s->len++] = '\\';
        }
        if (!copy_point(s)) {
            return false;
        }
        s->atom_product = 1;
    }
    return true;
}

static bool scan_one(struct scanner *s)
{
    int c = peek(s, 0);
    size_t most = 1;
    size_t len = c == '{' ? repeat_length(s, &most) : 0;
    if (c == '*' || c == '+' || c == '?') {
        return scan_quantifier(s, 1, 1);
    }
    if (len > 0) {
        return scan_quantifier(s, len, most);
    }
    if (c == '(') {
        return open_group(s);
    }
    if (c == ')') {
        return close_group(s);
    }
    if (c == '\\' && peek(s, 1) == 'Q') {
        return scan_literal(s);
    }
    s->atom_product = c == '^' || c == '$' || c == '|' ? 0 : 1;
    if (c == '\\') {
        return scan_escape(s, false);
    }
    if (c == '[') {
        return peek(s, 1) == ':' ? reject(s, "write [[:name:]] for a class of characters")
                                 : scan_class(s);
    }
    if (c == '{' || c == ']' || c == '}') {
        s->out[s->len++] = '\\';
    }
    return copy_point(s);
}

const char *regex_translate(struct arena *arena, struct str pattern, size_t *ret_len,
                            size_t *ret_groups, const char **ret_why)
{
    if (pattern.len > REGEX_PATTERN_BYTES_MAX) {
        *ret_why = "pattern longer than 4096 bytes";
        return NULL;
    }
    struct scanner s = {.arena = arena,
                        .in = pattern,
                        .out = arena_alloc(arena, pattern.len * OUT_FACTOR + 1),
                        .frames = {{.product = 1}}};
    if (!s.out) {
        *ret_why = "out of memory";
        return NULL;
    }
    while (s.at < pattern.len) {
        if (!scan_one(&s)) {
            *ret_why = s.why;
            return NULL;
        }
    }
    if (s.depth > 0) {
        *ret_why = "missing ')'";
        return NULL;
    }
    *ret_len = s.len;
    *ret_groups = s.groups;
    return s.out;
}
