#ifndef LIB_TIME_H
#define LIB_TIME_H

#include "policy/cel/eval.h"

enum { TIME_TEXT_MAX = 64 };

/* RFC 3339 in UTC, and seconds with up to nine decimals; returns the length. */
size_t time_format_timestamp(struct policy_value v, char out[TIME_TEXT_MAX]);
size_t time_format_duration(struct policy_value v, char out[TIME_TEXT_MAX]);

/* l op r where l is a timestamp or a duration. */
struct policy_value time_arithmetic(struct eval *e, const struct node *n, uint8_t op,
                                    struct policy_value l, struct policy_value r);

#endif
