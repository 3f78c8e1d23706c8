#ifndef CEL_LITERAL_H
#define CEL_LITERAL_H

#include "policy/cel/lex.h"

/* The value of an INT, UINT or DOUBLE token. negative: a '-' stands before it, which belongs to the
 * literal, so that the least int can be written. False when the number does not fit its type; the
 * failure is recorded in c. */
bool literal_read_number(struct compile *c, const struct token *t, bool negative,
                         struct policy_value *ret);

#endif
