#ifndef LIB_TEXT_H
#define LIB_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/str.h"

#define TEXT_NOWHERE SIZE_MAX

/* Byte offset of the first `what` in s at or after byte `from`; TEXT_NOWHERE. Linear time. */
size_t text_find(struct str s, struct str what, size_t from);

/* Byte offset of the last `what` that starts at or before byte `from`. */
size_t text_find_last(struct str s, struct str what, size_t from);

/* Byte offset of code point `index`, counted; TEXT_NOWHERE when the text has fewer. */
size_t text_offset(struct str s, int64_t index);

/* Unicode White_Space. */
bool text_is_space(uint32_t code_point);

/* Simple upper and lower case mapping (UnicodeData.txt fields 12 and 13). */
uint32_t text_to_lower(uint32_t code_point);
uint32_t text_to_upper(uint32_t code_point);

#endif
