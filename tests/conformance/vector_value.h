#ifndef CONFORMANCE_VECTOR_VALUE_H
#define CONFORMANCE_VECTOR_VALUE_H

#include <cjson/cJSON.h>

#include "policy/policy.h"

/* The tagged values of the vectors ({"t": "int", "v": "42"}) and ours. */

/* Makes a value for a binding; false for a form that is not known. */
bool vector_value_make(const cJSON *json, struct arena *arena, struct policy_value *ret);

/* Is v exactly what the vector expects: same type, same value, doubles bit by bit? */
bool vector_value_matches(const cJSON *json, struct policy_value v, struct arena *arena);

#endif
