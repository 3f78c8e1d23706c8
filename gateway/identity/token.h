#ifndef IDENTITY_TOKEN_H
#define IDENTITY_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/status.h"
#include "policy/base/str.h"

/* What proves who somebody is: 256 random bits, written as base64url behind a prefix that lets
 * people and secret scanners recognise it ("cat_…"). The text is shown once; only its SHA-256
 * is kept, so that a stolen store opens nothing. This is the one place that asks OpenSSL for
 * random bytes and digests. */

enum token_kind {
    TOKEN_ACCESS,         /* cat_: goes with each call */
    TOKEN_REFRESH,        /* crt_: gets the next pair of tokens */
    TOKEN_AUTHENTICATION, /* cauth_: opens sessions */
    TOKEN_CLIENT_SECRET,  /* csec_: OAuth2 client_credentials */
};

enum {
    TOKEN_RANDOM_BYTES = 32,
    TOKEN_DIGEST_BYTES = 32,
    TOKEN_BASE64_LEN = 43,   /* 32 bytes without padding */
    TOKEN_TEXT_SIZE = 64,    /* prefix, text and NUL */
    TOKEN_RANDOM_ID_MAX = 32 /* token_random_label() */
};

/* Text that must not be printed or logged; there is no function that prints it. */
struct secret {
    char text[TOKEN_TEXT_SIZE];
    size_t len;
};

/* Overwrites the text in a way that the compiler keeps. */
void secret_wipe(struct secret *s);

/* A new token and what the store keeps of it. UNAVAILABLE when the system gives no random bytes. */
int token_generate(enum token_kind kind, struct secret *ret_token,
                   uint8_t ret_digest[TOKEN_DIGEST_BYTES], struct error *err);

/* True when text has the form of a token of that kind; then its digest is in ret_digest. */
bool token_digest(enum token_kind kind, struct str text, uint8_t ret_digest[TOKEN_DIGEST_BYTES]);

/* In a time that does not depend on where the digests differ. */
bool token_digest_equal(const uint8_t a[TOKEN_DIGEST_BYTES], const uint8_t b[TOKEN_DIGEST_BYTES]);

/* SHA-256 of any bytes; in lower-case hex with a NUL. */
enum { TOKEN_DIGEST_HEX_SIZE = 2 * TOKEN_DIGEST_BYTES + 1 };
void token_sha256(struct str bytes, uint8_t ret_digest[TOKEN_DIGEST_BYTES]);
void token_sha256_hex(struct str bytes, char ret[TOKEN_DIGEST_HEX_SIZE]);

/* `len` characters, the first a letter a-z, then a-z and 0-9, each equally likely; len is at
 * most TOKEN_RANDOM_ID_MAX and ret has room for it and a NUL. For names and ids that need not be
 * secret. */
int token_random_label(size_t len, char *ret, struct error *err);

#endif
