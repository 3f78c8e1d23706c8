#ifndef LIB_NUMBERS_H
#define LIB_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/str.h"

enum { NUMBER_TEXT_MAX = 40, NUMBER_PLAIN_MAX = 400 };

/* The shortest digits that read back to the same double; with an exponent below 1e-4 and from
 * 1e6 on, as cel-go writes it. "NaN", "+Inf", "-Inf". Returns the length. */
size_t number_format_double(double d, char out[NUMBER_TEXT_MAX]);

/* The same digits without exponent; "NaN", "Infinity", "-Infinity". */
size_t number_format_plain(double d, char out[NUMBER_PLAIN_MAX]);

/* Text to number, by the rules of int(), uint() and double(). False when it is none or too big. */
bool number_parse_int(struct str s, int64_t *ret);
bool number_parse_uint(struct str s, uint64_t *ret);
bool number_parse_double(struct str s, double *ret);

#endif
