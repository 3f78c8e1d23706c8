#include "gateway/auditfile/signing_key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/audit/hex.h"

enum { PEM_MAX_BYTES = 64 * 1024 };

struct signing_key {
    EVP_PKEY *pair;
    char id[HASH_HEX_SIZE];
};

struct public_keys {
    size_t count;
    struct {
        EVP_PKEY *key;
        char id[HASH_HEX_SIZE];
    } items[PUBLIC_KEYS_MAX];
};

static int openssl_error(struct error *err, const char *step)
{
    char reason[256] = "unknown reason";
    unsigned long code = ERR_peek_last_error();
    if (code) {
        ERR_error_string_n(code, reason, sizeof reason);
    }
    ERR_clear_error();
    return error_set(err, STATUS_INTERNAL, "%s: %s", step, reason);
}

/* The id of a key: SHA-256 of its public half in DER. */
static bool make_id(EVP_PKEY *key, char ret[HASH_HEX_SIZE])
{
    uint8_t hash[HASH_BYTES];
    unsigned char *der = NULL;
    int n = i2d_PUBKEY(key, &der);
    bool ok = n > 0 && EVP_Digest(der, (size_t)n, hash, NULL, EVP_sha256(), NULL) == 1;
    if (ok) {
        hex_encode(hash, sizeof hash, ret);
    }
    OPENSSL_free(der);
    return ok;
}

/* ---- files ---- */

/* Writes a file whole and syncs it; `flags` say whether it is a new one or its end. */
static int write_pem(const char *path, BIO *pem, int flags, mode_t mode, struct error *err)
{
    char *text;
    long n = BIO_get_mem_data(pem, &text);
    AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, mode);
    if (fd == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "create '%s'", path);
    }
    int rc = fd_write_all(fd, text, (size_t)n);
    rc = rc == 0 && fsync(fd) == -1 ? -errno : rc;
    return rc ? error_set_errno(err, STATUS_FAILED_PRECONDITION, -rc, "write '%s'", path) : 0;
}

/* The public half first: a private key without it would sign what nobody can verify. */
static int write_pair(EVP_PKEY *pair, const char *path, const char *public_path, struct error *err)
{
    BIO *private_pem = BIO_new(BIO_s_secmem());
    BIO *public_pem = BIO_new(BIO_s_mem());
    bool is_made = private_pem && public_pem &&
                   PEM_write_bio_PKCS8PrivateKey(private_pem, pair, NULL, NULL, 0, NULL, NULL) &&
                   PEM_write_bio_PUBKEY(public_pem, pair);
    int rc = is_made ? write_pem(public_path, public_pem, O_APPEND, 0644, err)
                     : openssl_error(err, "encode the audit log's key");
    rc = rc ? rc : write_pem(path, private_pem, O_EXCL, 0600, err);
    BIO_free(private_pem);
    BIO_free(public_pem);
    return rc;
}

int signing_key_make(const char *path, const char *public_path, struct error *err)
{
    EVP_PKEY *pair = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    int rc = pair ? write_pair(pair, path, public_path, err)
                  : openssl_error(err, "make the audit log's key");
    EVP_PKEY_free(pair);
    return rc;
}

static int read_private(const char *path, BIO **ret, struct error *err)
{
    char text[PEM_MAX_BYTES];
    struct stat st;
    if (lstat(path, &st) == -1) {
        return error_set_errno(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_FAILED_PRECONDITION,
                               errno, "open '%s'", path);
    }
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077) != 0) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "'%s' must be a file that its owner alone may read: chmod 600 it", path);
    }
    ssize_t n = fd_read_file(AT_FDCWD, path, text, sizeof text);
    if (n < 0) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, (int)-n, "read '%s'", path);
    }
    BIO *bio = BIO_new(BIO_s_secmem());
    bool ok = bio && BIO_write(bio, text, (int)n) == (int)n;
    OPENSSL_cleanse(text, sizeof text);
    if (!ok) {
        BIO_free(bio);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    *ret = bio;
    return 0;
}

int signing_key_load(const char *path, struct signing_key **ret, struct error *err)
{
    BIO *bio = NULL;
    int rc = read_private(path, &bio, err);
    struct signing_key *key = rc ? NULL : calloc(1, sizeof *key);
    if (rc || !key) {
        BIO_free(bio);
        return rc ? rc : error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    /* An empty passphrase, so that an encrypted key fails instead of asking on the terminal. */
    key->pair = PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)(uintptr_t) "");
    BIO_free(bio);
    ERR_clear_error();
    if (!key->pair || !EVP_PKEY_is_a(key->pair, "ED25519") || !make_id(key->pair, key->id)) {
        signing_key_free(key);
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "'%s' is no Ed25519 key in PEM; put the right one back from a copy", path);
    }
    *ret = key;
    return 0;
}

void signing_key_free(struct signing_key *key)
{
    if (key) {
        EVP_PKEY_free(key->pair);
        free(key);
    }
}

const char *signing_key_id(const struct signing_key *key)
{
    return key->id;
}

int signing_key_sign(const struct signing_key *key, struct str text, uint8_t ret[SIGNATURE_BYTES],
                     struct error *err)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    size_t n = SIGNATURE_BYTES;
    bool ok = ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, key->pair) == 1 &&
              EVP_DigestSign(ctx, ret, &n, (const unsigned char *)text.ptr, text.len) == 1 &&
              n == SIGNATURE_BYTES;
    EVP_MD_CTX_free(ctx);
    return ok ? 0 : openssl_error(err, "sign a checkpoint");
}

/* ---- base64 ---- */

void signature_to_base64(const uint8_t signature[SIGNATURE_BYTES], char ret[SIGNATURE_BASE64_SIZE])
{
    EVP_EncodeBlock((unsigned char *)ret, signature, SIGNATURE_BYTES);
}

bool signature_from_base64(struct str text, uint8_t ret[SIGNATURE_BYTES])
{
    /* The library takes more forms than one: what is read must be what would be written. */
    unsigned char bytes[SIGNATURE_BYTES + 2];
    char again[SIGNATURE_BASE64_SIZE];
    if (text.len != SIGNATURE_BASE64_SIZE - 1 ||
        EVP_DecodeBlock(bytes, (const unsigned char *)text.ptr, (int)text.len) !=
            (int)sizeof bytes) {
        ERR_clear_error();
        return false;
    }
    signature_to_base64(bytes, again);
    memcpy(ret, bytes, SIGNATURE_BYTES);
    return str_is(text, again);
}

/* ---- public keys ---- */

static int add_key(struct public_keys *keys, EVP_PKEY *key, const char *path, struct error *err)
{
    if (keys->count == PUBLIC_KEYS_MAX) {
        EVP_PKEY_free(key);
        return error_set(err, STATUS_INVALID_ARGUMENT, "'%s' has more than %d keys", path,
                         PUBLIC_KEYS_MAX);
    }
    keys->items[keys->count].key = key;
    if (!EVP_PKEY_is_a(key, "ED25519") || !make_id(key, keys->items[keys->count].id)) {
        EVP_PKEY_free(key);
        return error_set(err, STATUS_INVALID_ARGUMENT, "'%s' has a key that is not Ed25519", path);
    }
    keys->count++;
    return 0;
}

/* The next block of a PEM file; NULL at its end, or with *ret_is_bad for what is no public key. */
static EVP_PKEY *read_key(BIO *bio, bool *ret_is_bad)
{
    char *name = NULL;
    char *header = NULL;
    unsigned char *der = NULL;
    long n = 0;
    EVP_PKEY *key = NULL;
    if (PEM_read_bio(bio, &name, &header, &der, &n) == 1) {
        const unsigned char *p = der;
        key = strcmp(name, PEM_STRING_PUBLIC) == 0 ? d2i_PUBKEY(NULL, &p, n) : NULL;
        *ret_is_bad = !key;
    } else {
        *ret_is_bad = ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE;
    }
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(der);
    ERR_clear_error();
    return key;
}

static int read_keys(BIO *bio, const char *path, struct public_keys *keys, struct error *err)
{
    int rc = 0;
    bool is_bad = false;
    EVP_PKEY *key;
    while (rc == 0 && (key = read_key(bio, &is_bad))) {
        rc = add_key(keys, key, path, err);
    }
    if (rc == 0 && (keys->count == 0 || is_bad)) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "'%s' is no public key in PEM", path);
    }
    return rc;
}

int public_keys_load(const char *path, struct public_keys **ret, struct error *err)
{
    BIO *bio = BIO_new_file(path, "r");
    int open_errno = errno;
    struct public_keys *keys = calloc(1, sizeof *keys);
    ERR_clear_error();
    if (!bio || !keys) {
        BIO_free(bio);
        free(keys);
        return error_set_errno(err, open_errno == ENOENT ? STATUS_NOT_FOUND : STATUS_UNAVAILABLE,
                               keys ? open_errno : ENOMEM, "open '%s'", path);
    }
    int rc = read_keys(bio, path, keys, err);
    BIO_free(bio);
    if (rc) {
        public_keys_free(keys);
        return rc;
    }
    *ret = keys;
    return 0;
}

void public_keys_free(struct public_keys *keys)
{
    for (size_t i = 0; keys && i < keys->count; i++) {
        EVP_PKEY_free(keys->items[i].key);
    }
    free(keys);
}

static EVP_PKEY *find(const struct public_keys *keys, struct str id)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (str_is(id, keys->items[i].id)) {
            return keys->items[i].key;
        }
    }
    return NULL;
}

bool public_keys_have(const struct public_keys *keys, struct str id)
{
    return find(keys, id);
}

bool public_keys_verify(const struct public_keys *keys, struct str id, struct str text,
                        const uint8_t signature[SIGNATURE_BYTES])
{
    EVP_PKEY *key = find(keys, id);
    EVP_MD_CTX *ctx = key ? EVP_MD_CTX_new() : NULL;
    bool ok = ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
              EVP_DigestVerify(ctx, signature, SIGNATURE_BYTES, (const unsigned char *)text.ptr,
                               text.len) == 1;
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return ok;
}
