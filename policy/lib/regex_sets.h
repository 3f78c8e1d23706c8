#ifndef LIB_REGEX_SETS_H
#define LIB_REGEX_SETS_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/base/str.h"

/* The sets of characters that have names in RE2's syntax. Each is written as ranges: what engines
 * make of the names differs in brackets, and under (?i) even outside of them. */
struct regex_set;

/* "alpha" for [:alpha:] and so on; NULL: RE2 has none of that name. */
const struct regex_set *regex_set_find(struct str posix_name);

/* \d, \s, \w by their letter in lower case; NULL: no set. */
const struct regex_set *regex_set_of_escape(int letter);

enum { REGEX_SET_BYTES_MAX = 160 }; /* what regex_set_write() writes at most */

/* Writes the set, or what is not in it, as ranges for the inside of brackets; gives the bytes
 * written. With `fold`, characters that differ from a member only in case are members (the long s
 * and the Kelvin sign beside the ASCII letters), as RE2 has it under (?i). */
size_t regex_set_write(const struct regex_set *set, bool negated, bool fold, char *out);

/* What \p{name} is. */
enum regex_property {
    REGEX_PROPERTY_UNKNOWN,
    REGEX_PROPERTY_CATEGORY,
    REGEX_PROPERTY_SCRIPT,
};

/* ret_folds: characters in it differ in case from others that are not, so that (?i) changes it. */
enum regex_property regex_property_find(struct str name, bool *ret_folds);

#endif
