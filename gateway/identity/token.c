#include "gateway/identity/token.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <string.h>

#include "gateway/audit/hex.h"

static struct str prefix_of(enum token_kind kind)
{
    switch (kind) {
    case TOKEN_ACCESS:
        return STR("cat_");
    case TOKEN_REFRESH:
        return STR("crt_");
    case TOKEN_AUTHENTICATION:
        return STR("cauth_");
    case TOKEN_CLIENT_SECRET:
        return STR("csec_");
    }
    return STR("");
}

static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static int random_bytes(void *ret, size_t n, struct error *err)
{
    if (RAND_bytes(ret, (int)n) != 1) {
        return error_set(err, STATUS_UNAVAILABLE, "The system gives no random bytes");
    }
    return 0;
}

void secret_wipe(struct secret *s)
{
    OPENSSL_cleanse(s->text, sizeof(s->text));
    s->len = 0;
}

/* RFC 4648 section 5, without padding. out has room for TOKEN_BASE64_LEN. */
static void encode_base64url(const uint8_t bytes[TOKEN_RANDOM_BYTES], char *out)
{
    unsigned bits = 0;
    unsigned held = 0;
    for (size_t i = 0; i < TOKEN_RANDOM_BYTES; i++) {
        held = (held << 8) | bytes[i];
        bits += 8;
        while (bits >= 6) {
            bits -= 6;
            *out++ = base64url[(held >> bits) & 63];
        }
    }
    *out = base64url[(held << (6 - bits)) & 63];
}

int token_generate(enum token_kind kind, struct secret *ret_token,
                   uint8_t ret_digest[TOKEN_DIGEST_BYTES], struct error *err)
{
    uint8_t random[TOKEN_RANDOM_BYTES];
    int status = random_bytes(random, sizeof(random), err);
    if (status) {
        return status;
    }
    struct str prefix = prefix_of(kind);
    memset(ret_token, 0, sizeof(*ret_token));
    memcpy(ret_token->text, prefix.ptr, prefix.len);
    encode_base64url(random, ret_token->text + prefix.len);
    ret_token->len = prefix.len + TOKEN_BASE64_LEN;
    OPENSSL_cleanse(random, sizeof(random));
    token_sha256(str_make(ret_token->text, ret_token->len), ret_digest);
    return 0;
}

bool token_digest(enum token_kind kind, struct str text, uint8_t ret_digest[TOKEN_DIGEST_BYTES])
{
    struct str prefix = prefix_of(kind);
    if (text.len != prefix.len + TOKEN_BASE64_LEN || !str_starts_with(text, prefix)) {
        return false;
    }
    for (size_t i = prefix.len; i < text.len; i++) {
        if (!text.ptr[i] || !strchr(base64url, text.ptr[i])) {
            return false;
        }
    }
    token_sha256(text, ret_digest);
    return true;
}

bool token_digest_equal(const uint8_t a[TOKEN_DIGEST_BYTES], const uint8_t b[TOKEN_DIGEST_BYTES])
{
    return CRYPTO_memcmp(a, b, TOKEN_DIGEST_BYTES) == 0;
}

void token_sha256(struct str bytes, uint8_t ret_digest[TOKEN_DIGEST_BYTES])
{
    unsigned len = 0;
    int done =
        EVP_Digest(bytes.ptr ? bytes.ptr : "", bytes.len, ret_digest, &len, EVP_sha256(), NULL);
    if (done != 1 || len != TOKEN_DIGEST_BYTES) {
        /* Only a lack of memory leads here; a digest that matches nothing fails closed. */
        memset(ret_digest, 0, TOKEN_DIGEST_BYTES);
    }
}

void token_sha256_hex(struct str bytes, char ret[TOKEN_DIGEST_HEX_SIZE])
{
    uint8_t digest[TOKEN_DIGEST_BYTES];
    token_sha256(bytes, digest);
    hex_encode(digest, sizeof digest, ret);
}

int token_random_label(size_t len, char *ret, struct error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    assert(len > 0 && len <= TOKEN_RANDOM_ID_MAX);
    size_t done = 0;
    while (done < len) {
        uint8_t random[64];
        int status = random_bytes(random, sizeof(random), err);
        if (status) {
            return status;
        }
        unsigned choices = done == 0 ? 26 : 36;
        for (size_t i = 0; i < sizeof(random) && done < len; i++) {
            /* A byte past the last full multiple would favour the first letters. */
            if (random[i] < 256 / choices * choices) {
                ret[done++] = letters[random[i] % choices];
                choices = 36;
            }
        }
    }
    ret[len] = 0;
    return 0;
}
