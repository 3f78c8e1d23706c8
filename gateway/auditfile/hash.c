#include "gateway/auditfile/hash.h"

#include <openssl/evp.h>
#include <stdlib.h>

struct hasher {
    EVP_MD_CTX *ctx;
    EVP_MD_CTX *copy; /* for hasher_peek() */
    EVP_MD *sha256;
};

struct hasher *hasher_new(void)
{
    struct hasher *h = calloc(1, sizeof *h);
    if (!h) {
        return NULL;
    }
    h->ctx = EVP_MD_CTX_new();
    h->copy = EVP_MD_CTX_new();
    h->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (!h->ctx || !h->copy || !h->sha256) {
        hasher_free(h);
        return NULL;
    }
    return h;
}

void hasher_free(struct hasher *h)
{
    if (h) {
        EVP_MD_CTX_free(h->ctx);
        EVP_MD_CTX_free(h->copy);
        EVP_MD_free(h->sha256);
        free(h);
    }
}

bool hasher_begin(struct hasher *h)
{
    return EVP_DigestInit_ex2(h->ctx, h->sha256, NULL) == 1;
}

bool hasher_add(struct hasher *h, struct str piece)
{
    return EVP_DigestUpdate(h->ctx, piece.ptr ? piece.ptr : "", piece.len) == 1;
}

bool hasher_end(struct hasher *h, uint8_t ret[HASH_BYTES])
{
    return EVP_DigestFinal_ex(h->ctx, ret, NULL) == 1;
}

bool hasher_peek(struct hasher *h, uint8_t ret[HASH_BYTES])
{
    return EVP_MD_CTX_copy_ex(h->copy, h->ctx) == 1 && EVP_DigestFinal_ex(h->copy, ret, NULL) == 1;
}

bool hasher_digest(struct hasher *h, struct str text, uint8_t ret[HASH_BYTES])
{
    return hasher_begin(h) && hasher_add(h, text) && hasher_end(h, ret);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hash_from_hex(struct str hex, uint8_t ret[HASH_BYTES])
{
    if (hex.len != HASH_HEX_SIZE - 1) {
        return false;
    }
    for (size_t i = 0; i < HASH_BYTES; i++) {
        int high = digit(hex.ptr[2 * i]);
        int low = digit(hex.ptr[2 * i + 1]);
        if (high < 0 || low < 0) {
            return false;
        }
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
