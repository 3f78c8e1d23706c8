/* Without PCRE2 (POLICY_WITHOUT_PCRE2): patterns are still checked, and none compiles. A rule that
 * needs one is refused at apply, and a pattern made at run time is an error, which denies. */
#ifdef POLICY_WITHOUT_PCRE2

#include "policy/lib/regex.h"

enum regex_status regex_compile(struct arena *arena, struct str pattern,
                                const struct regex **ret_regex, const char **ret_why)
{
    struct regex_translation translated;
    (void)ret_regex;
    if (regex_translate(arena, pattern, &translated, ret_why)) {
        *ret_why = "this library was built without regular expressions";
    }
    return REGEX_BAD_PATTERN;
}

bool regex_match_is_sure(const struct regex *regex)
{
    (void)regex;
    return true;
}

size_t regex_groups(const struct regex *regex)
{
    (void)regex;
    return 0;
}

enum regex_status regex_search(const struct regex *regex, struct str s, size_t from,
                               enum regex_effort effort, bool *ret_found,
                               struct regex_match *ret_match)
{
    (void)regex;
    (void)s;
    (void)from;
    (void)effort;
    (void)ret_match;
    *ret_found = false;
    return REGEX_LIMIT;
}

#else

/* A source file needs one declaration. */
struct regex;

#endif
