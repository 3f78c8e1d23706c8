#ifndef LIB_SORT_H
#define LIB_SORT_H

#include "policy/cel/eval.h"

/* Sorts entries by key, in place and stably. All keys must be of one kind that has an order.
 * Gives null, or the failure. */
struct policy_value sort_entries(struct eval *e, const struct node *n, struct policy_entry *entries,
                                 size_t count);

#endif
