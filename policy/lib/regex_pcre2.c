#include "policy/lib/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#if PCRE2_MAJOR * 100 + PCRE2_MINOR < 1040
#error "PCRE2 10.40 or newer is needed: older ones know no \\p{sc:...}"
#endif

/* The one file that names PCRE2. All its memory comes from arenas, so that nothing has to be
 * freed and the caps of compilation and evaluation hold for it too. */

enum {
    /* PCRE2 counts steps for each place where a match may start, not for the whole search. About
     * 9 ns a step without JIT: the usual explosion ends after half a millisecond, one that keeps
     * just below the limit at each start after four, and for each KiB of text half a millisecond
     * more. */
    SEARCH_STEPS_MAX = 400000,
    BYTE_STEPS_MAX = 64,
    START_STEPS_MAX = 50000,
    START_STEPS_LITTLE = 500,
    START_STEPS_MIN = 100,
    SUBJECT_BYTES_MAX = 256 << 10,
    MATCH_DEPTH_MAX = 10000,
    MATCH_HEAP_KIB_MAX = 4096,
    SEARCH_LENT_BYTES = 24 << 10,
    SEARCH_MEMORY_BYTES_MAX = 2 * (MATCH_HEAP_KIB_MAX << 10), /* frames are copied when they grow */
};

/* Where a match may start. */
enum starts { STARTS_ANYWHERE, STARTS_AT_BYTE, STARTS_AT_LINES, STARTS_AT_BEGINNING };

struct regex {
    pcre2_code *code;
    size_t groups;
    bool match_is_sure;
    enum starts starts;
    unsigned char first; /* STARTS_AT_BYTE: this one, or a letter of the other case */
};

static void *take(PCRE2_SIZE size, void *arena)
{
    return arena_alloc(arena, size);
}

static void give_back(void *memory, void *arena)
{
    (void)memory;
    (void)arena;
}

static enum regex_status compile_failure(struct arena *arena, int code, PCRE2_SIZE at,
                                         const char **ret_why)
{
    PCRE2_UCHAR text[128];
    if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAPLIMIT) {
        *ret_why = "out of memory";
        return REGEX_NO_MEMORY;
    }
    if (pcre2_get_error_message(code, text, sizeof text) < 0) {
        text[0] = '\0';
    }
    const char *why = arena_printf(arena, "%s near byte %zu", (const char *)text, (size_t)at);
    *ret_why = why ? why : "bad pattern";
    return REGEX_BAD_PATTERN;
}

static void find_starts(struct regex *regex)
{
    uint32_t options = 0;
    uint32_t first_type = 0;
    uint32_t first = 0;
    (void)pcre2_pattern_info(regex->code, PCRE2_INFO_ALLOPTIONS, &options);
    (void)pcre2_pattern_info(regex->code, PCRE2_INFO_FIRSTCODETYPE, &first_type);
    (void)pcre2_pattern_info(regex->code, PCRE2_INFO_FIRSTCODEUNIT, &first);
    regex->starts = STARTS_ANYWHERE;
    if (options & PCRE2_ANCHORED) {
        regex->starts = STARTS_AT_BEGINNING;
    } else if (first_type == 2) {
        regex->starts = STARTS_AT_LINES;
    } else if (first_type == 1 && first < 128) {
        regex->starts = STARTS_AT_BYTE;
        regex->first = (unsigned char)first;
    }
}

static size_t count_bytes(struct str s, unsigned char wanted, unsigned char mask)
{
    size_t count = 0;
    for (size_t i = 0; i < s.len; i++) {
        count += ((unsigned char)s.ptr[i] & mask) == (wanted & mask);
    }
    return count;
}

/* Steps allowed for each start, so that all starts together stay below a maximum: an input made
 * for the purpose would otherwise cost its length squared. */
static uint32_t steps_for_each_start(const struct regex *regex, struct str s,
                                     enum regex_effort effort)
{
    size_t starts = 1;
    switch (regex->starts) {
    case STARTS_ANYWHERE:
        starts += s.len;
        break;
    case STARTS_AT_BYTE:
        starts += count_bytes(s, regex->first, (unsigned char)~0x20);
        break;
    case STARTS_AT_LINES:
        starts += count_bytes(s, '\n', 0xFF);
        break;
    case STARTS_AT_BEGINNING:
        break;
    }
    size_t steps = (SEARCH_STEPS_MAX + s.len * BYTE_STEPS_MAX) / starts;
    size_t most = effort == REGEX_LITTLE ? START_STEPS_LITTLE : START_STEPS_MAX;
    steps = steps > most ? most : steps;
    return (uint32_t)(steps < START_STEPS_MIN ? START_STEPS_MIN : steps);
}

enum regex_status regex_compile(struct arena *arena, struct str pattern,
                                const struct regex **ret_regex, const char **ret_why)
{
    struct regex_translation translated;
    if (!regex_translate(arena, pattern, &translated, ret_why)) {
        return REGEX_BAD_PATTERN;
    }
    struct regex *regex = arena_zalloc(arena, sizeof *regex);
    pcre2_general_context *general = pcre2_general_context_create(take, give_back, arena);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    if (!regex || !context) {
        *ret_why = "out of memory";
        return REGEX_NO_MEMORY;
    }
    int code;
    PCRE2_SIZE at;
    (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    (void)pcre2_set_parens_nest_limit(context, REGEX_NESTING_MAX + 10);
    /* PCRE2 up to 10.42 takes \P{Han} and \P{Latin} for sets without a common member, and then
     * never gives back what it took for the first: \P{Han}+\P{Latin} would not find "ab". */
    uint32_t options = translated.has_properties ? PCRE2_NO_AUTO_POSSESS : 0;
    regex->code = pcre2_compile((PCRE2_SPTR)translated.text, translated.len,
                                options | PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_CIRCUMFLEX |
                                    PCRE2_NEVER_BACKSLASH_C | PCRE2_NEVER_UCP | PCRE2_NO_UTF_CHECK,
                                &code, &at, context);
    if (!regex->code) {
        return compile_failure(arena, code, at, ret_why);
    }
    regex->groups = translated.groups;
    regex->match_is_sure = translated.match_is_sure;
    find_starts(regex);
    *ret_regex = regex;
    return REGEX_OK;
}

size_t regex_groups(const struct regex *regex)
{
    return regex->groups;
}

bool regex_match_is_sure(const struct regex *regex)
{
    return regex->match_is_sure;
}

static void copy_match(const struct regex *regex, pcre2_match_data *data, int rc,
                       struct regex_match *ret)
{
    const PCRE2_SIZE *offsets = pcre2_get_ovector_pointer(data);
    for (size_t i = 0; i < 2 * (regex->groups + 1); i++) {
        ret->offsets[i] = i < 2 * (size_t)rc && offsets[i] != PCRE2_UNSET ? offsets[i] : SIZE_MAX;
    }
}

static enum regex_status search_with(const struct regex *regex, struct str s, size_t from,
                                     enum regex_effort effort, struct arena *arena, bool *ret_found,
                                     struct regex_match *ret_match)
{
    pcre2_general_context *general = pcre2_general_context_create(take, give_back, arena);
    pcre2_match_context *context = general ? pcre2_match_context_create(general) : NULL;
    pcre2_match_data *data =
        general ? pcre2_match_data_create((uint32_t)regex->groups + 1, general) : NULL;
    if (!context || !data) {
        return REGEX_NO_MEMORY;
    }
    (void)pcre2_set_match_limit(context, steps_for_each_start(regex, s, effort));
    (void)pcre2_set_depth_limit(context, MATCH_DEPTH_MAX);
    (void)pcre2_set_heap_limit(context, MATCH_HEAP_KIB_MAX);
    int rc = pcre2_match(regex->code, (PCRE2_SPTR)(s.ptr ? s.ptr : ""), s.len, from,
                         PCRE2_NO_UTF_CHECK, data, context);
    *ret_found = rc > 0;
    if (rc > 0) {
        if (ret_match) {
            copy_match(regex, data, rc, ret_match);
        }
        return REGEX_OK;
    }
    if (rc == PCRE2_ERROR_NOMATCH) {
        return REGEX_OK;
    }
    return rc == PCRE2_ERROR_NOMEMORY ? REGEX_NO_MEMORY : REGEX_LIMIT;
}

enum regex_status regex_search(const struct regex *regex, struct str s, size_t from,
                               enum regex_effort effort, bool *ret_found,
                               struct regex_match *ret_match)
{
    /* PCRE2 begins with 20 KiB for its frames. */
    _Alignas(16) char lent[SEARCH_LENT_BYTES];
    struct arena scratch;
    if (s.len > SUBJECT_BYTES_MAX) {
        return REGEX_LIMIT;
    }
    arena_init_with(&scratch, lent, sizeof lent, SEARCH_MEMORY_BYTES_MAX);
    enum regex_status status = search_with(regex, s, from, effort, &scratch, ret_found, ret_match);
    arena_free(&scratch);
    return status;
}
