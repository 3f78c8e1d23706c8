#ifndef EDGE_HEADER_TEXT_H
#define EDGE_HEADER_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* The text forms that RPC protocols put in headers. */

/* "grpc-timeout": one to eight digits and a unit of HMSmun (gRPC over HTTP/2, "Timeout"). */
bool header_text_parse_grpc_timeout(struct str s, uint64_t *ret_ns);

/* "connect-timeout-ms": one to ten digits. */
bool header_text_parse_connect_timeout(struct str s, uint64_t *ret_ns);

/* "grpc-message": bytes outside 0x20-0x7E, and '%', as %XX. Whatever comes in, what goes out is
 * a legal header value. */
void header_text_add_percent_encoded(struct buf *out, struct str s);

/* Values of "-bin" headers: base64 without padding. */
void header_text_add_base64(struct buf *out, struct str s);

/* Case-insensitive for ASCII; `lower` is in lower case already. */
bool header_text_is_nocase(struct str s, const char *lower);

/* True when the comma-separated list has that token, ignoring case, parameters (";q=1") and blanks.
 */
bool header_text_list_has(struct str list, const char *lower_token);

/* Without blanks at both ends. */
struct str header_text_trim(struct str s);

/* A token of RFC 9110 §5.6.2: not empty, no separators. */
bool header_text_is_token(struct str s);

#endif
