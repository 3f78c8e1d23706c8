#ifndef POLICYFILE_YAML_TRAP_H
#define POLICYFILE_YAML_TRAP_H

#include "gateway/text/tree.h"
#include "gateway/text/yaml_place.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* What an author of policies meant where YAML reads something else. `code` is a diagnostic's code;
 * `text` NULL: the reader's own words are the best there are. */
struct yaml_trap {
    const char *code;
    const char *text;
    const char *remedy;
    uint32_t line; /* where the mistake is, from 1; 0: where the error is */
    uint32_t column;
};

/* For an error of the reader. */
struct yaml_trap yaml_trap_of(const struct text_lines *file, const struct error *err);

/* For a scalar without quotes: is it text here and something else for other readers of YAML (`no`,
 * 010, 1_000, 12:30, 2001-01-01)? The code is NULL when not. */
struct yaml_trap yaml_trap_scalar(const struct tree_node *scalar);

/* For an expression without quotes that does not compile: was it cut by " #"? Gives the byte of
 * that '#' in the file, or 0. */
size_t yaml_trap_comment(const struct text_lines *file, const struct tree_node *scalar);

#endif
