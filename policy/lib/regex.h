#ifndef LIB_REGEX_H
#define LIB_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/base/arena.h"
#include "policy/base/str.h"

/* Regular expressions in RE2's syntax and meaning: an unanchored search, UTF-8, no
 * back-references and no look-around. */
struct regex;

enum {
    REGEX_PATTERN_BYTES_MAX = 4096,
    REGEX_GROUPS_MAX = 100,
    REGEX_REPEAT_MAX = 1000, /* also of the product of nested counts */
    REGEX_NESTING_MAX = 50,
};

enum regex_status {
    REGEX_OK = 0,
    REGEX_BAD_PATTERN = 1, /* *ret_why says why */
    REGEX_NO_MEMORY = 2,
    REGEX_LIMIT = 3, /* the match took too many steps: never the same as "no match" */
};

/* What matched: byte offsets of group i are [2 * i] and [2 * i + 1]; SIZE_MAX: not taken part. */
struct regex_match {
    size_t offsets[2 * (REGEX_GROUPS_MAX + 1)];
};

/* The compiled pattern lives in the arena. *ret_why is a literal or lives in the arena. */
enum regex_status regex_compile(struct arena *arena, struct str pattern,
                                const struct regex **ret_regex, const char **ret_why);

/* How many groups the pattern has. */
size_t regex_groups(const struct regex *regex);

/* False when a repeated part may match nothing, as in (a|)+ and (?:a??)*: engines differ in where
 * such a match ends and in what its groups are. Whether there is one is sure. */
bool regex_match_is_sure(const struct regex *regex);

/* How long a search may take before it ends in REGEX_LIMIT. */
enum regex_effort {
    REGEX_LITTLE, /* what all but a few searches need; far below a millisecond for short texts */
    REGEX_ALL,    /* a hundred times as much */
};

/* Searches from byte `from`. s must be valid UTF-8. *ret_found; the match only if found; ret_match
 * may be NULL. Takes a few KiB of stack and, for few texts, a bounded scratch memory that is given
 * back. */
enum regex_status regex_search(const struct regex *regex, struct str s, size_t from,
                               enum regex_effort effort, bool *ret_found,
                               struct regex_match *ret_match);

/* A pattern in the engine's syntax. */
struct regex_translation {
    const char *text;
    size_t len;
    size_t groups;
    bool match_is_sure;
    bool has_properties; /* \p or \P */
};

/* lib/regex_syntax.c: checks that the pattern is in the subset that RE2 and the engine read alike
 * and rewrites what they read differently. False and *ret_why when not. */
bool regex_translate(struct arena *arena, struct str pattern, struct regex_translation *ret,
                     const char **ret_why);

#endif
