#include "policy/lib/regex.h"

#include <stdint.h>

#include "policy/base/utf8.h"
#include "policy/lib/regex_sets.h"

/* RE2's syntax (https://github.com/google/re2/wiki/Syntax), checked by position and rewritten where
 * PCRE2 reads it otherwise: sets with names, scripts, \v, \Q...\E, braces. Refused though RE2 takes
 * them: \C, the repetition of an anchor, a group repeated zero times, [:alpha:] outside of
 * brackets, collating elements, letters by \p under (?i). tests/conformance/run_regex holds this
 * against RE2 itself. */

/* The shortest pattern for a set is two bytes, \W, and takes brackets outside of brackets. */
enum { OUT_FACTOR = REGEX_SET_BYTES_MAX / 2 + 1 };

struct frame {
    size_t product; /* largest product of counts inside the group so far */
    bool folds;     /* what (?i) was where the group began */
    bool is_empty;  /* an earlier branch may match nothing */
    bool may_end;   /* the branch may match nothing up to here */
    bool might_end; /* the same before the last atom */
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
    bool atom_is_group;
    bool atom_is_empty; /* it is a group that may match nothing */
    bool folds;         /* (?i) holds here */
    bool unsure;        /* such an atom is repeated */
    bool has_properties;
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

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

/* What stands for itself after a backslash. */
static bool is_punctuation(int c)
{
    return c >= 0 && c < 128 && !is_letter(c) && !is_digit(c);
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

/* \pL, \p{Greek}, \P{^Lu}: a name of RE2's table. PCRE2 would take \p{Greek} for all characters
 * that Greek texts use, with marks that others use too: it is told to look at the script. */
static bool scan_property(struct scanner *s)
{
    bool braces = peek(s, 2) == '{';
    bool negated = braces && peek(s, 3) == '^';
    size_t begin = 2 + (size_t)braces + (size_t)negated;
    size_t len = braces ? 0 : 1;
    while (braces && (is_letter(peek(s, begin + len)) || peek(s, begin + len) == '_')) {
        len++;
    }
    bool fits = s->at + begin + len <= s->in.len && (!braces || peek(s, begin + len) == '}');
    struct str name = fits ? str_make(s->in.ptr + s->at + begin, len) : STR_NONE;
    bool folds;
    enum regex_property property = regex_property_find(name, &folds);
    if (property == REGEX_PROPERTY_UNKNOWN) {
        return reject(s, "no such category or script of Unicode");
    }
    if (folds && s->folds) {
        return reject(s, "\\p under (?i) is not supported: write (?-i:\\p{...})");
    }
    s->has_properties = true;
    if (property == REGEX_PROPERTY_CATEGORY) {
        return copy(s, begin + len + (size_t)braces);
    }
    (void)copy(s, begin);
    memcpy(s->out + s->len, "sc:", 3);
    s->len += 3;
    return copy(s, len + 1);
}

/* Writes a set in place of n bytes of the pattern. */
static bool write_set(struct scanner *s, size_t n, const struct regex_set *set, bool negated,
                      bool in_class)
{
    if (!in_class) {
        s->out[s->len++] = '[';
    }
    s->len += regex_set_write(set, negated, s->folds, s->out + s->len);
    if (!in_class) {
        s->out[s->len++] = ']';
    }
    s->at += n;
    return true;
}

/* An escape; in a class some mean something else. */
static bool scan_escape(struct scanner *s, bool in_class)
{
    int c = peek(s, 1);
    switch (c) {
    case 'd':
    case 's':
    case 'w':
        return write_set(s, 2, regex_set_of_escape(c), false, in_class);
    case 'D':
    case 'S':
    case 'W':
        return write_set(s, 2, regex_set_of_escape(c | 32), true, in_class);
    case 'v':
        return rewrite(s, 2, "\\x0b");
    case 'a':
    case 'f':
    case 't':
    case 'n':
    case 'r':
        return copy(s, 2);
    case 'p':
    case 'P':
        return scan_property(s);
    case 'x':
        return scan_hex(s);
    default:
        break;
    }
    if (is_digit(c)) {
        return scan_octal(s);
    }
    if (!in_class && (c == 'A' || c == 'z' || c == 'b' || c == 'B')) {
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

/* Where the ":]" is that ends a name which begins at s->at; 0: there is none. */
static size_t posix_name_end(const struct scanner *s)
{
    for (size_t n = 2; peek(s, n + 1) != -1; n++) {
        if (peek(s, n) == ':' && peek(s, n + 1) == ']') {
            return n;
        }
    }
    return 0;
}

/* [:alpha:] and [:^alpha:] inside of brackets. */
static bool scan_posix_name(struct scanner *s, size_t end)
{
    bool negated = peek(s, 2) == '^';
    size_t begin = 2 + (size_t)negated;
    struct str name = end > begin ? str_make(s->in.ptr + s->at + begin, end - begin) : STR_NONE;
    const struct regex_set *set = regex_set_find(name);
    return set ? write_set(s, end + 2, set, negated, true) : reject(s, "unknown character class");
}

/* A character, or one end of a range. */
static bool scan_class_point(struct scanner *s)
{
    int c = peek(s, 0);
    int next = peek(s, 1);
    if (c == '\\') {
        return next > 0 && strchr("dDsSwWpP", next) ? reject(s, "bad range in brackets")
                                                    : scan_escape(s, true);
    }
    /* PCRE2 makes more of an inner '[' and of a '-' after a set; a ']' may come first in both. */
    switch (c) {
    case '[':
        return rewrite(s, 1, "\\[");
    case ']':
        return rewrite(s, 1, "\\]");
    case '-':
        return rewrite(s, 1, "\\-");
    default:
        return copy_point(s);
    }
}

/* A set such as \d or [:alpha:], a character, or a range. */
static bool scan_class_item(struct scanner *s)
{
    int c = peek(s, 0);
    int next = peek(s, 1);
    if (c == '\\' && next > 0 && strchr("dDsSwWpP", next)) {
        return scan_escape(s, true);
    }
    size_t end = c == '[' && next == ':' ? posix_name_end(s) : 0;
    if (end > 0) {
        return scan_posix_name(s, end);
    }
    if (c == '[' && (next == '.' || next == '=')) {
        return reject(s, "collating elements are not supported");
    }
    if (!scan_class_point(s)) {
        return false;
    }
    if (peek(s, 0) != '-' || peek(s, 1) == ']' || peek(s, 1) == -1) {
        return true;
    }
    (void)copy(s, 1);
    return scan_class_point(s);
}

static bool scan_class(struct scanner *s)
{
    (void)copy(s, 1);
    if (peek(s, 0) == '^') {
        (void)copy(s, 1);
    }
    for (bool first = true; first || peek(s, 0) != ']'; first = false) {
        if (peek(s, 0) == -1) {
            return reject(s, "missing ']'");
        }
        if (!scan_class_item(s)) {
            return false;
        }
    }
    return copy(s, 1);
}

/* (?P<name>, (?<name>: always written as the first form. */
static bool scan_group_name(struct scanner *s, size_t at)
{
    size_t n = at;
    while (is_letter(peek(s, n)) || peek(s, n) == '_' || is_digit(peek(s, n))) {
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
    bool folds = s->folds;
    for (;; n++) {
        int c = peek(s, n);
        folds = c == 'i' ? !minus : folds;
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
    s->folds = folds;
    return copy(s, n + 1);
}

static bool open_group(struct scanner *s)
{
    bool opens = true;
    bool captures = true;
    bool folds = s->folds;
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
    s->frames[++s->depth] = (struct frame){.product = 1, .folds = folds, .may_end = true};
    return true;
}

/* An atom was read, which may match nothing when it is_empty. */
static void take_atom(struct scanner *s, bool is_empty)
{
    struct frame *f = &s->frames[s->depth];
    f->might_end = f->may_end;
    f->may_end = f->may_end && is_empty;
    s->atom_is_empty = false;
    s->atom_is_group = false;
}

static bool close_group(struct scanner *s)
{
    if (s->depth == 0) {
        return reject(s, "unmatched ')'");
    }
    struct frame closed = s->frames[s->depth--];
    bool is_empty = closed.is_empty || closed.may_end;
    s->folds = closed.folds;
    s->atom_product = closed.product;
    take_atom(s, is_empty);
    s->atom_is_empty = is_empty;
    s->atom_is_group = true;
    return copy(s, 1);
}

/* A count at s->at + n, without a zero in front; gives the number of its digits. */
static size_t count_length(const struct scanner *s, size_t n, size_t *ret_count)
{
    size_t digits = 0;
    size_t v = 0;
    for (; is_digit(peek(s, n + digits)); digits++) {
        v = v > 100000 ? v : v * 10 + (size_t)(peek(s, n + digits) - '0');
    }
    *ret_count = v;
    return digits > 1 && peek(s, n) == '0' ? 0 : digits;
}

/* {n}, {n,} or {n,m} at s->at: its length, or 0 when it is a literal brace. */
static size_t repeat_length(const struct scanner *s, size_t *ret_least, size_t *ret_most)
{
    size_t low;
    size_t n = 1 + count_length(s, 1, &low);
    *ret_least = low;
    size_t high = low;
    if (n == 1) {
        return 0;
    }
    if (peek(s, n) == ',') {
        size_t digits = count_length(s, ++n, &high);
        n += digits;
        high = digits > 0 ? high : low > 0 ? low : 1; /* {0,} is '*' */
        if (high < low) {
            high = REGEX_REPEAT_MAX + 1;
        }
    }
    *ret_most = high > low ? high : low;
    return peek(s, n) == '}' ? n + 1 : 0;
}

static bool scan_quantifier(struct scanner *s, size_t len, size_t least, size_t most)
{
    if (s->atom_product == 0) {
        return reject(s, "nothing to repeat");
    }
    if (most == 0 && s->atom_is_group) {
        /* PCRE2 reads on behind its first branch: of (?:a|\Ab){0}c it thinks that it begins at \A.
         */
        return reject(s, "a group repeated zero times: leave it out");
    }
    if (least == 0) {
        s->frames[s->depth].may_end = s->frames[s->depth].might_end;
    }
    s->unsure = s->unsure || (s->atom_is_empty && peek(s, 0) != '?');
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
        (peek(s, 0) == '{' && repeat_length(s, &ignored, &ignored) > 0)) {
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
        take_atom(s, false);
    }
    return true;
}

static bool scan_one(struct scanner *s)
{
    int c = peek(s, 0);
    size_t most = 1;
    size_t least = 0;
    size_t len = c == '{' ? repeat_length(s, &least, &most) : 0;
    if (c == '*' || c == '+' || c == '?') {
        return scan_quantifier(s, 1, c == '+', 1);
    }
    if (len > 0) {
        return scan_quantifier(s, len, least, most);
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
    bool is_anchor = c == '^' || c == '$' || (c == '\\' && strchr("AzbB", peek(s, 1)));
    if (c == '|') {
        struct frame *f = &s->frames[s->depth];
        f->is_empty = f->is_empty || f->may_end;
        f->may_end = true;
    } else if (!is_anchor) {
        take_atom(s, false);
    }
    s->atom_product = is_anchor || c == '|' ? 0 : 1;
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

bool regex_translate(struct arena *arena, struct str pattern, struct regex_translation *ret,
                     const char **ret_why)
{
    if (pattern.len > REGEX_PATTERN_BYTES_MAX) {
        *ret_why = "pattern longer than 4096 bytes";
        return false;
    }
    struct scanner s = {.arena = arena,
                        .in = pattern,
                        .out = arena_alloc(arena, pattern.len * OUT_FACTOR + 1),
                        .frames = {{.product = 1, .may_end = true}}};
    if (!s.out) {
        *ret_why = "out of memory";
        return false;
    }
    while (s.at < pattern.len) {
        if (!scan_one(&s)) {
            *ret_why = s.why;
            return false;
        }
    }
    if (s.depth > 0) {
        *ret_why = "missing ')'";
        return false;
    }
    *ret = (struct regex_translation){.text = s.out,
                                      .len = s.len,
                                      .groups = s.groups,
                                      .match_is_sure = !s.unsure,
                                      .has_properties = s.has_properties};
    return true;
}
