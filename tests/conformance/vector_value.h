#ifndef CONFORMANCE_VECTOR_VALUE_H
#define CONFORMANCE_VECTOR_VALUE_H

#include <cjson/cJSON.h>

#include "policy/policy.h"

/* The tagged values of the vectors ({"t": "int", "v": "42"}) and ours. */

/* cJSON ends texts at NUL: the runner puts U+E000 in its place, and this puts NUL back. The text
 * under the key, in the arena; empty when there is none. */
struct str vector_text(const cJSON *json, const char *key, struct arena *arena);

/* Replaces each \\u0000 escape of JSON text by \\uE000. */
void vector_hide_nul(char *json_text);

/* Makes a value for a binding; false for a form that is not known. */
bool vector_value_make(const cJSON *json, struct arena *arena, struct policy_value *ret);

/* Is v exactly what the vector expects: same type, same value, doubles bit by bit? */
bool vector_value_matches(const cJSON *json, struct policy_value v, struct arena *arena);

#endif
