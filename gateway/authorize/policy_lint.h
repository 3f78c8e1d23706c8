#ifndef AUTHORIZE_POLICY_LINT_H
#define AUTHORIZE_POLICY_LINT_H

#include "api/core.pb-c.h"
#include "policy/base/arena.h"

enum { POLICY_LINT_MAX = 100 };

/* Doubts about a policy that is valid: rules that cannot match, that beat others from afar, or that
 * match for want of input. Each is a sentence that names the rule. *ret_texts is in the arena; the
 * count is 0 too when that is full. */
size_t policy_lint(const Core__Policy__Spec *spec, struct arena *arena, char ***ret_texts);

#endif
