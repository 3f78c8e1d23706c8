#ifndef UNIT_POLICY_CEL_FIXTURE_H
#define UNIT_POLICY_CEL_FIXTURE_H

#include "policy/policy.h"

/* Compiles and evaluates text in a fresh env; ctx is JSON text or NULL. Gives the value as
 * policy_value_print() writes it, or "compile error", or "error CODE_NAME". The text lives in the
 * arena, which the caller frees. */
const char *cel_outcome(struct arena *arena, const char *text, const char *ctx);

/* The same with limits of the caller's; the eval arena has the given cap. */
const char *cel_outcome_limited(struct arena *arena, const char *text,
                                const struct policy_input *limits, size_t memory_bytes_max);

#endif
