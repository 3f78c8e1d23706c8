#ifndef EDGE_COMPRESSION_H
#define EDGE_COMPRESSION_H

#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* gzip (RFC 1952) of single messages. */

/* Appends the compressed bytes. */
int compression_gzip(struct buf *out, struct str bytes, struct error *err);

/* Appends the plain bytes; they must fit in out->len_max, so that a small bomb cannot
 * become a large allocation: -STATUS_RESOURCE_EXHAUSTED. Damaged or truncated input, and bytes
 * after its end, are -STATUS_INVALID_ARGUMENT. */
int compression_gunzip(struct buf *out, struct str bytes, struct error *err);

#endif
