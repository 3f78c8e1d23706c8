#ifndef AUDITFILE_HASH_H
#define AUDITFILE_HASH_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/str.h"

/* SHA-256 with the library's set-up done once: a line of the log takes a third of the time that
 * token_sha256() takes. For one thread at a time. */
struct hasher;

enum { HASH_BYTES = 32, HASH_HEX_SIZE = 65 };

/* NULL without memory. */
struct hasher *hasher_new(void);
void hasher_free(struct hasher *h); /* NULL is fine */

/* Of one text. False on a failure of the library; then nothing may be believed. */
bool hasher_digest(struct hasher *h, struct str text, uint8_t ret[HASH_BYTES]);

/* Of what comes piece by piece. */
bool hasher_begin(struct hasher *h);
bool hasher_add(struct hasher *h, struct str piece);
bool hasher_end(struct hasher *h, uint8_t ret[HASH_BYTES]);

/* Of the pieces so far; more may follow. */
bool hasher_peek(struct hasher *h, uint8_t ret[HASH_BYTES]);

/* Exactly 64 lower-case hex digits. */
bool hash_from_hex(struct str hex, uint8_t ret[HASH_BYTES]);

#endif
