#ifndef GATEWAY_RPC_CODEC_SCALAR_H
#define GATEWAY_RPC_CODEC_SCALAR_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* Scalars of protobuf's JSON mapping as text. Readers take the whole text or return false. */

/* Decimal, also with a fraction or an exponent as long as the value is whole: "1e3", "2.0". */
bool scalar_read_i64(struct str text, int64_t *ret);
bool scalar_read_u64(struct str text, uint64_t *ret);

/* JSON's numbers, and the words NaN, Infinity and -Infinity; false when it overflows. */
bool scalar_read_double(struct str text, double *ret);

/* Base64 of the standard or the URL alphabet, with or without padding. *ret is NULL for no bytes.
 */
bool scalar_read_base64(struct str text, struct arena *arena, uint8_t **ret, size_t *ret_len);
void scalar_write_base64(struct buf *out, const uint8_t *bytes, size_t len);

/* RFC 3339 from year 1 to 9999, any offset, up to nine digits of fraction. */
bool scalar_read_timestamp(struct str text, int64_t *ret_seconds, int32_t *ret_nanos);

/* Always UTC, with 0, 3, 6 or 9 digits. False when the value has no such form. */
bool scalar_write_timestamp(struct buf *out, int64_t seconds, int32_t nanos);

/* "3.5s", within 10000 years. */
bool scalar_read_duration(struct str text, int64_t *ret_seconds, int32_t *ret_nanos);
bool scalar_write_duration(struct buf *out, int64_t seconds, int32_t nanos);

#endif
