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
};

/* For an error of the reader. */
struct yaml_trap yaml_trap_of(const struct text_lines *file, const struct error *err);

/* For an expression without quotes that does not compile: was it cut by " #"? Gives the byte of
 * that '#' in the file, or 0. */
size_t yaml_trap_comment(const struct text_lines *file, const struct tree_node *scalar);

#endif
