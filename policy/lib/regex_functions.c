#include "policy/cel/eval.h"

#include "policy/base/utf8.h"
#include "policy/lib/regex.h"

/* matches() of the standard library, and the regex extension. */

/* The prepared pattern of a literal, or args[1] compiled now; NULL with *failed. The subject,
 * args[0], is checked too: the engine relies on UTF-8. */
static const struct regex *pattern_of(struct eval *e, const struct node *n,
                                      const struct policy_value *args, struct policy_value *failed)
{
    const struct regex *regex = n->constant;
    const char *why;
    if (!eval_charge(e, eval_text_cost(args[0].len) + (regex ? 0 : 20 + args[1].len))) {
        *failed = eval_limit(e, n);
        return NULL;
    }
    if (!utf8_is_valid(policy_value_str(args[0]))) {
        *failed = eval_fail(e, n, POLICY_E_INVALID_ARGUMENT, "text is not valid UTF-8");
        return NULL;
    }
    if (regex) {
        return regex;
    }
    enum regex_status status = regex_compile(e->arena, policy_value_str(args[1]), &regex, &why);
    if (status == REGEX_OK) {
        return regex;
    }
    const char *text = arena_printf(e->arena, "bad regular expression: %s, in", why);
    *failed = status == REGEX_NO_MEMORY || !text
                  ? eval_out_of_memory(e, n)
                  : eval_fail_on(e, n, POLICY_E_INVALID_REGEX, text, args[1]);
    return NULL;
}

/* What a search costs that little effort does not end. An expression can have about fifty of them,
 * which is a few tens of milliseconds. */
enum { DEAR_SEARCH_COST = 20000 };

/* 1 found, 0 not found, -1 with *failed. */
static int search(struct eval *e, const struct node *n, const struct regex *regex, struct str s,
                  size_t from, struct regex_match *match, struct policy_value *failed)
{
    bool found;
    if (!eval_charge(e, 2 + (s.len - from) / 4)) {
        *failed = eval_limit(e, n);
        return -1;
    }
    enum regex_status status = regex_search(regex, s, from, REGEX_LITTLE, &found, match);
    if (status == REGEX_LIMIT) {
        if (!eval_charge(e, DEAR_SEARCH_COST)) {
            *failed = eval_limit(e, n);
            return -1;
        }
        status = regex_search(regex, s, from, REGEX_ALL, &found, match);
    }
    switch (status) {
    case REGEX_OK:
        return found;
    case REGEX_NO_MEMORY:
        *failed = eval_out_of_memory(e, n);
        return -1;
    case REGEX_LIMIT:
    case REGEX_BAD_PATTERN:
        break;
    }
    *failed = eval_fail(e, n, POLICY_E_REGEX_LIMIT,
                        "the regular expression needs too many steps for this text");
    return -1;
}

static struct policy_value matches(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    struct policy_value failed;
    const struct regex *regex = pattern_of(e, n, args, &failed);
    int found = regex ? search(e, n, regex, policy_value_str(args[0]), 0, NULL, &failed) : -1;
    return found < 0 ? failed : policy_bool(found == 1);
}

/* Growing list of texts. */
struct pieces {
    struct policy_value *items;
    size_t count;
    size_t room;
};

static bool add_piece(struct eval *e, struct pieces *p, struct str s)
{
    if (p->count == p->room) {
        size_t room = p->room ? p->room * 2 : 8;
        struct policy_value *grown =
            eval_charge(e, room) ? arena_calloc(e->arena, room, sizeof *grown) : NULL;
        if (!grown) {
            return false;
        }
        if (p->count > 0) {
            memcpy(grown, p->items, p->count * sizeof *grown);
        }
        p->items = grown;
        p->room = room;
    }
    p->items[p->count++] = policy_string(s);
    return true;
}

static struct policy_value unsure_match(struct eval *e, const struct node *n)
{
    return eval_fail(e, n, POLICY_E_INVALID_REGEX,
                     "the regular expression repeats a part that may match nothing: where such a "
                     "match ends is not defined");
}

/* The replacement text with \N taken from the match, as pieces; false with *failed. */
static bool expand(struct eval *e, const struct node *n, struct str by, struct str s,
                   const struct regex *regex, const struct regex_match *match, struct pieces *out,
                   struct policy_value *failed)
{
    size_t done = 0;
    for (size_t i = 0; i < by.len; i++) {
        if (by.ptr[i] != '\\') {
            continue;
        }
        bool ok = add_piece(e, out, str_make(by.ptr + done, i - done));
        int c = i + 1 < by.len ? by.ptr[i + 1] : 0;
        if (c >= '0' && c <= '9' && (size_t)(c - '0') <= regex_groups(regex)) {
            size_t g = (size_t)(c - '0');
            size_t begin = match->offsets[2 * g];
            if (begin != SIZE_MAX) {
                ok = ok &&
                     add_piece(e, out, str_make(s.ptr + begin, match->offsets[2 * g + 1] - begin));
            }
        } else if (c == '\\') {
            ok = ok && add_piece(e, out, STR("\\"));
        } else {
            *failed = eval_fail(e, n, POLICY_E_INVALID_ARGUMENT,
                                "regex.replace(): the replacement names a group that is not there");
            return false;
        }
        if (!ok) {
            *failed = eval_alloc_failed(e, n);
            return false;
        }
        i++;
        done = i + 1;
    }
    if (!add_piece(e, out, str_make(by.ptr + done, by.len - done))) {
        *failed = eval_alloc_failed(e, n);
        return false;
    }
    return true;
}

static struct policy_value join_pieces(struct eval *e, const struct node *n, const struct pieces *p)
{
    uint64_t total = 0;
    for (size_t i = 0; i < p->count; i++) {
        total += p->items[i].len;
    }
    char *out = total > UINT32_MAX ? NULL : eval_alloc(e, (size_t)total);
    size_t used = 0;
    if (!out) {
        return eval_alloc_failed(e, n);
    }
    for (size_t i = 0; i < p->count; i++) {
        if (p->items[i].len > 0) {
            memcpy(out + used, p->items[i].as.text, p->items[i].len);
            used += p->items[i].len;
        }
    }
    return eval_take_text(POLICY_STRING, out, used);
}

/* The length of the character at byte `at`; 1 at the end. */
static size_t point_length(struct str s, size_t at)
{
    size_t n = 1;
    while (at + n < s.len && ((unsigned char)s.ptr[at + n] & 0xC0) == 0x80) {
        n++;
    }
    return n;
}

static struct policy_value replace(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    struct policy_value failed;
    struct str s = policy_value_str(args[0]);
    const struct regex *regex = pattern_of(e, n, args, &failed);
    uint64_t most = n->count > 3 && args[3].as.i >= 0 ? (uint64_t)args[3].as.i : UINT64_MAX;
    struct pieces out = {0};
    struct regex_match match;
    size_t done = 0;
    size_t from = 0;
    if (!regex) {
        return failed;
    }
    if (!regex_match_is_sure(regex)) {
        return unsure_match(e, n);
    }
    for (uint64_t i = 0; i < most && from <= s.len; i++) {
        int found = search(e, n, regex, s, from, &match, &failed);
        if (found < 0) {
            return failed;
        }
        if (found == 0) {
            break;
        }
        if (!add_piece(e, &out, str_make(s.ptr + done, match.offsets[0] - done))) {
            return eval_alloc_failed(e, n);
        }
        if (!expand(e, n, policy_value_str(args[2]), s, regex, &match, &out, &failed)) {
            return failed;
        }
        done = match.offsets[1];
        from =
            match.offsets[1] + (match.offsets[1] == match.offsets[0] ? point_length(s, done) : 0);
    }
    if (!add_piece(e, &out, str_make(s.ptr + done, s.len - done))) {
        return eval_alloc_failed(e, n);
    }
    return join_pieces(e, n, &out);
}

/* The one group, or the whole match; SIZE_MAX begin when the group took no part. */
static struct str extracted(struct str s, const struct regex *regex,
                            const struct regex_match *match, bool *ret_present)
{
    size_t g = regex_groups(regex) > 0 ? 1 : 0;
    size_t begin = match->offsets[2 * g];
    *ret_present = begin != SIZE_MAX;
    return *ret_present ? str_make(s.ptr + begin, match->offsets[2 * g + 1] - begin) : STR_NONE;
}

/* True when one text can be extracted; else *failed. */
static bool is_extractable(struct eval *e, const struct node *n, const struct regex *regex,
                           struct policy_value *failed)
{
    if (regex_groups(regex) > 1) {
        *failed = eval_fail(e, n, POLICY_E_INVALID_ARGUMENT,
                            "extracting wants a pattern with at most one group");
        return false;
    }
    if (!regex_match_is_sure(regex)) {
        *failed = unsure_match(e, n);
        return false;
    }
    return true;
}

static struct policy_value extract(struct eval *e, const struct node *n,
                                   const struct policy_value *args)
{
    struct policy_value failed;
    struct regex_match match;
    bool present = false;
    struct str s = policy_value_str(args[0]);
    const struct regex *regex = pattern_of(e, n, args, &failed);
    if (!regex || !is_extractable(e, n, regex, &failed)) {
        return failed;
    }
    int found = search(e, n, regex, s, 0, &match, &failed);
    if (found < 0) {
        return failed;
    }
    struct str text = found ? extracted(s, regex, &match, &present) : STR_NONE;
    return present ? eval_make_optional(e, n, policy_string(text))
                   : (struct policy_value){.kind = POLICY_OPTIONAL};
}

static struct policy_value extract_all(struct eval *e, const struct node *n,
                                       const struct policy_value *args)
{
    struct policy_value failed;
    struct regex_match match;
    struct pieces out = {0};
    struct str s = policy_value_str(args[0]);
    const struct regex *regex = pattern_of(e, n, args, &failed);
    if (!regex || !is_extractable(e, n, regex, &failed)) {
        return failed;
    }
    for (size_t from = 0; from <= s.len;) {
        bool present;
        int found = search(e, n, regex, s, from, &match, &failed);
        if (found < 0) {
            return failed;
        }
        if (found == 0) {
            break;
        }
        struct str text = extracted(s, regex, &match, &present);
        if (present && !add_piece(e, &out, text)) {
            return eval_alloc_failed(e, n);
        }
        from = match.offsets[1];
        from += match.offsets[1] == match.offsets[0] ? point_length(s, from) : 0;
    }
    const struct policy_list *list = policy_list_build(e->arena, out.items, out.count);
    return list ? policy_list(list) : eval_out_of_memory(e, n);
}

static const struct function_row rows[] = {
    {"matches", 0, "string, string -> bool", matches},
    {"matches", FUNCTION_MEMBER, "string, string -> bool", matches},
};

const struct function_table functions_regex = {0, rows, sizeof rows / sizeof rows[0]};

static const struct function_row ext_rows[] = {
    {"regex.replace", 0, "string, string, string -> string", replace},
    {"regex.replace", 0, "string, string, string, int -> string", replace},
    {"regex.extract", 0, "string, string -> optional_type(string)", extract},
    {"regex.extractAll", 0, "string, string -> list(string)", extract_all},
};

const struct function_table functions_regex_ext = {POLICY_LIB_REGEX, ext_rows,
                                                   sizeof ext_rows / sizeof ext_rows[0]};
