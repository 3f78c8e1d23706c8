#ifndef AUDITFILE_CHECKPOINT_H
#define AUDITFILE_CHECKPOINT_H

#include <stdint.h>

#include "gateway/auditfile/hash.h"
#include "gateway/auditfile/line.h"
#include "gateway/auditfile/signing_key.h"
#include "policy/base/bytes.h"

/* A line of kind AuditCheckpoint: a signature over the chain up to it.
 *
 *   "metadata":{"createdAt":"T"},
 *   "checkpoint":{"keyID":"K","signature":"S","reason":"R"}
 *
 * S is the Ed25519 signature (RFC 8032), in base64 with padding, of these four lines, each with a
 * newline, where N and H are the line's own sequence and prev:
 *
 *   cordium-audit-checkpoint-v1
 *   N
 *   H
 *   T
 *
 * K is the SHA-256 of the public key's DER form (SubjectPublicKeyInfo), in hex. R says what called
 * for it (LINES, TIME, ROTATION, START, STOP, TOMBSTONE); it is not signed.
 *
 * H covers all lines before it, so that one signature vouches for the whole log so far. With
 * nothing but standard tools:
 *
 *   grep '"kind":"AuditCheckpoint"' audit.jsonl | tail -n 1 > line
 *   { echo cordium-audit-checkpoint-v1; jq -r '.sequence, .prev, .metadata.createdAt' line; } >
 * text jq -r .checkpoint.signature line | base64 -d > signature openssl pkeyutl -verify -pubin
 * -inkey audit.pub -rawin -in text -sigfile signature
 */

/* The record without sequence and prev; it must become the line of that sequence and prev. INTERNAL
 * when it cannot be signed. */
int checkpoint_write(const struct signing_key *key, uint64_t sequence,
                     const uint8_t prev[HASH_BYTES], int64_t wall_ns, const char *reason,
                     struct buf *out, struct error *err);

enum checkpoint_verdict {
    CHECKPOINT_GOOD,
    CHECKPOINT_MALFORMED,
    CHECKPOINT_UNKNOWN_KEY, /* none of the keys has that id */
    CHECKPOINT_FORGED,      /* the signature is not that key's */
};

/* Judges a line of that kind by its own sequence and prev: whether these are the chain's is the
 * caller's to find out. */
enum checkpoint_verdict checkpoint_verify(const struct line *line, const struct public_keys *keys);

#endif
