#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/str.h"

/* Well-formed by RFC 3629: shortest forms only, no surrogates, at most U+10FFFF. */
bool utf8_is_valid(struct str s);

/* Decodes the code point at s.ptr; returns its length in bytes, or 0 when s is empty or
 * the bytes there are not well-formed. */
size_t utf8_decode(struct str s, uint32_t *ret_code_point);

/* Writes 1 to 4 bytes and returns how many; 0 for surrogates and values over U+10FFFF. */
size_t utf8_encode(uint32_t code_point, char out[4]);

/* Number of code points; s must be valid. */
size_t utf8_count(struct str s);

/* Byte offset of the code point number `index`; s.len when index is the count; s must be
 * valid and index at most its count. */
size_t utf8_offset(struct str s, size_t index);

#endif
