#include "gateway/identity/ssh_key.h"

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <string.h>

#include "policy/base/bytes.h"

enum {
    POINT_BYTES = 65, /* 0x04, x, y */
    BLOB_BYTES_MAX = 256,
};

/* A string of RFC 4251 section 5: its length, big-endian, and its bytes. */
static void add_string(struct buf *out, const void *bytes, size_t len)
{
    buf_add_u8(out, (uint8_t)(len >> 24));
    buf_add_u8(out, (uint8_t)(len >> 16));
    buf_add_u8(out, (uint8_t)(len >> 8));
    buf_add_u8(out, (uint8_t)len);
    buf_add(out, bytes, len);
}

/* The public key blob of RFC 5656 section 3.1, in base64. */
static char *public_line(EVP_PKEY *key, const char *comment, struct arena *arena)
{
    static const char algorithm[] = "ecdsa-sha2-nistp256";
    static const char curve[] = "nistp256";
    uint8_t point[POINT_BYTES];
    size_t point_len = 0;
    if (EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point),
                                        &point_len) != 1 ||
        point_len != POINT_BYTES) {
        return NULL;
    }
    struct buf blob;
    buf_init(&blob, BLOB_BYTES_MAX);
    add_string(&blob, algorithm, sizeof(algorithm) - 1);
    add_string(&blob, curve, sizeof(curve) - 1);
    add_string(&blob, point, point_len);
    char base64[BLOB_BYTES_MAX * 2];
    char *line = NULL;
    if (!blob.failed) {
        (void)EVP_EncodeBlock((unsigned char *)base64, blob.ptr, (int)blob.len);
        line = arena_printf(arena, "%s %s %s", algorithm, base64, comment);
    }
    buf_free(&blob);
    return line;
}

static char *private_pem(EVP_PKEY *key, struct arena *arena)
{
    BIO *bio = BIO_new(BIO_s_secmem());
    if (!bio) {
        return NULL;
    }
    char *pem = NULL;
    char *bytes = NULL;
    if (PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1) {
        long len = BIO_get_mem_data(bio, &bytes);
        pem = len > 0 ? arena_strndup(arena, bytes, (size_t)len) : NULL;
    }
    BIO_free(bio);
    return pem;
}

int ssh_key_generate(const char *comment, struct arena *arena, char **ret_private,
                     char **ret_public, struct error *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    char *line = key ? public_line(key, comment, arena) : NULL;
    char *pem = key ? private_pem(key, arena) : NULL;
    bool was_made = key != NULL;
    EVP_PKEY_free(key);
    if (!line || !pem) {
        return was_made ? error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for an SSH key")
                        : error_set(err, STATUS_INTERNAL, "OpenSSL makes no ECDSA key");
    }
    *ret_public = line;
    *ret_private = pem;
    return 0;
}
