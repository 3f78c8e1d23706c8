#include "gateway/edge/tls_stream.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

struct tls_context {
    SSL_CTX *ctx;
};

struct tls_stream {
    SSL *ssl;
    bool is_established;
    bool is_broken;
};

/* Appends OpenSSL's own reason, and leaves the error queue empty: a stale entry would be
 * blamed on the next connection. */
static int openssl_error(struct error *err, const char *step, const char *path)
{
    char reason[256] = "unknown reason";
    unsigned long code = ERR_peek_last_error();
    if (code) {
        ERR_error_string_n(code, reason, sizeof reason);
    }
    ERR_clear_error();
    return error_set(err, STATUS_FAILED_PRECONDITION, "%s '%s': %s", step, path, reason);
}

static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *in, unsigned in_len, void *unused)
{
    (void)ssl;
    (void)unused;
    static const unsigned char ours[] = "\x02h2\x08http/1.1";
    int rc = SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_len, ours, sizeof ours - 1,
                                   in, in_len);
    return rc == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* A key with a passphrase is an error, not a question on the terminal. */
static int refuse_passphrase(char *buf, int size, int is_write, void *unused)
{
    (void)buf;
    (void)size;
    (void)is_write;
    (void)unused;
    return -1;
}

static bool set_options(SSL_CTX *ctx)
{
    static const unsigned char session_context[] = "cordium-gateway";
    SSL_CTX_set_default_passwd_cb(ctx, refuse_passphrase);
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_alpn_select_cb(ctx, select_alpn, NULL);
    SSL_CTX_set_read_ahead(ctx, 1);
    return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
           SSL_CTX_set_num_tickets(ctx, 1) == 1 &&
           SSL_CTX_set_session_id_context(ctx, session_context, sizeof session_context - 1) == 1;
}

int tls_context_load(const char *certificate_path, const char *key_path, struct tls_context **ret,
                     struct error *err)
{
    ERR_clear_error();
    struct tls_context *context = calloc(1, sizeof *context);
    if (!context) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "set up TLS: out of memory");
    }
    context->ctx = SSL_CTX_new(TLS_server_method());
    int rc = 0;
    if (!context->ctx || !set_options(context->ctx)) {
        rc = openssl_error(err, "set up TLS for", certificate_path);
    } else if (SSL_CTX_use_certificate_chain_file(context->ctx, certificate_path) != 1) {
        rc = openssl_error(err, "read the certificate", certificate_path);
    } else if (SSL_CTX_use_PrivateKey_file(context->ctx, key_path, SSL_FILETYPE_PEM) != 1) {
        rc = openssl_error(err, "read the private key", key_path);
    } else if (SSL_CTX_check_private_key(context->ctx) != 1) {
        rc = openssl_error(err, "match the certificate with the private key", key_path);
    }
    if (rc) {
        tls_context_free(context);
        return rc;
    }
    *ret = context;
    return 0;
}

void tls_context_free(struct tls_context *context)
{
    if (context) {
        SSL_CTX_free(context->ctx); /* counts references: streams hold their own */
        free(context);
    }
}

struct tls_stream *tls_stream_new(struct tls_context *context, int fd)
{
    struct tls_stream *s = calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    s->ssl = SSL_new(context->ctx);
    if (!s->ssl || SSL_set_fd(s->ssl, fd) != 1) {
        tls_stream_free(s);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_accept_state(s->ssl);
    return s;
}

/* SSL_get_error() looks at the thread's error queue, so each operation starts with an empty
 * one and leaves an empty one. */
static enum io_status judge(struct tls_stream *s, int rc)
{
    if (rc > 0) {
        return IO_DONE;
    }
    int error = SSL_get_error(s->ssl, rc);
    ERR_clear_error();
    switch (error) {
    case SSL_ERROR_WANT_READ:
        return IO_WANT_READ;
    case SSL_ERROR_WANT_WRITE:
        return IO_WANT_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return IO_CLOSED;
    default:
        s->is_broken = true;
        return IO_BROKEN;
    }
}

enum io_status tls_stream_handshake(struct tls_stream *s)
{
    ERR_clear_error();
    enum io_status status = judge(s, SSL_accept(s->ssl));
    s->is_established = status == IO_DONE;
    return status;
}

bool tls_stream_is_http2(const struct tls_stream *s)
{
    const unsigned char *name;
    unsigned len;
    SSL_get0_alpn_selected(s->ssl, &name, &len);
    return len == 2 && memcmp(name, "h2", 2) == 0;
}

enum io_status tls_stream_read(struct tls_stream *s, void *to, size_t room, size_t *ret_len)
{
    ERR_clear_error();
    return judge(s, SSL_read_ex(s->ssl, to, room, ret_len));
}

enum io_status tls_stream_write(struct tls_stream *s, const void *from, size_t len, size_t *ret_len)
{
    ERR_clear_error();
    return judge(s, SSL_write_ex(s->ssl, from, len, ret_len));
}

bool tls_stream_has_pending(const struct tls_stream *s)
{
    return SSL_has_pending(s->ssl) == 1;
}

void tls_stream_free(struct tls_stream *s)
{
    if (!s) {
        return;
    }
    if (s->is_established && !s->is_broken) {
        (void)SSL_shutdown(s->ssl);
    }
    SSL_free(s->ssl);
    ERR_clear_error();
    free(s);
}
