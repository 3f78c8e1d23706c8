#ifndef AUTHORIZE_APPLY_CHECK_H
#define AUTHORIZE_APPLY_CHECK_H

#include "gateway/policyfile/policy_files.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* The checker of policy files, for a text that is about to be applied; internal to
 * authorize/apply. */

int apply_check(struct str text, struct arena *arena, struct policy_files *files,
                struct error *err);

/* What is wrong with expressions and rules of the document that begins on a line: one line for each
 * ("line 12, column 16: …"), as far as an error's text goes. False when nothing is. */
bool apply_check_errors(const struct policy_files *files, uint32_t line, struct arena *arena,
                        struct error *err);

/* Doubts about that document, each as one text with its place. */
size_t apply_check_warnings(const struct policy_files *files, uint32_t line, struct arena *arena,
                            char ***ret);

#endif
