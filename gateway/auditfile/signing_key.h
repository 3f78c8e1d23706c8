#ifndef AUDITFILE_SIGNING_KEY_H
#define AUDITFILE_SIGNING_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/auditfile/hash.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* The Ed25519 key pair of the audit log's checkpoints. */

enum { SIGNATURE_BYTES = 64, PUBLIC_KEYS_MAX = 64 };

struct signing_key;

/* Makes a new pair: the private one (PEM, PKCS #8, mode 0600) at `path`, which must not be there,
 * and its public half (PEM, mode 0644) at the end of `public_path`, where older ones stay for the
 * checkpoints that they signed. */
int signing_key_make(const char *path, const char *public_path, struct error *err);

/* NOT_FOUND when there is no such file. FAILED_PRECONDITION: not such a key, or others than its
 * owner may read it. */
int signing_key_load(const char *path, struct signing_key **ret, struct error *err);
void signing_key_free(struct signing_key *key); /* NULL is fine */

/* 64 hex digits; lives as long as the key. */
const char *signing_key_id(const struct signing_key *key);
int signing_key_sign(const struct signing_key *key, struct str text, uint8_t ret[SIGNATURE_BYTES],
                     struct error *err);

/* Base64 with padding (RFC 4648 section 4); reading takes nothing else. */
enum { SIGNATURE_BASE64_SIZE = (SIGNATURE_BYTES + 2) / 3 * 4 + 1 };
void signature_to_base64(const uint8_t signature[SIGNATURE_BYTES], char ret[SIGNATURE_BASE64_SIZE]);
bool signature_from_base64(struct str text, uint8_t ret[SIGNATURE_BYTES]);

/* Public keys, each by its id. */
struct public_keys;

/* All keys of a PEM file. NOT_FOUND when there is no such file; INVALID_ARGUMENT: none in it, one
 * that is no Ed25519 key, or more than PUBLIC_KEYS_MAX. */
int public_keys_load(const char *path, struct public_keys **ret, struct error *err);
void public_keys_free(struct public_keys *keys);
bool public_keys_have(const struct public_keys *keys, struct str id);

/* True when the key of that id signed the text. */
bool public_keys_verify(const struct public_keys *keys, struct str id, struct str text,
                        const uint8_t signature[SIGNATURE_BYTES]);

#endif
