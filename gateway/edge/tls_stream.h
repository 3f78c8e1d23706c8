#ifndef EDGE_TLS_STREAM_H
#define EDGE_TLS_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/base/status.h"

/* TLS over a non-blocking socket. The one place that uses OpenSSL's SSL functions. */

/* How one attempt at input or output ended. */
enum io_status {
    IO_DONE,
    IO_WANT_READ, /* try again when the socket is readable */
    IO_WANT_WRITE,
    IO_CLOSED, /* the peer ended its side in order */
    IO_BROKEN,
};

/* Certificate and settings, shared by the connections that were made with it. */
struct tls_context;

/* PEM files: the chain with the server's certificate first, and its key. TLS 1.2 with
 * forward secrecy and AEAD, or 1.3; ALPN h2, http/1.1. */
int tls_context_load(const char *certificate_path, const char *key_path, struct tls_context **ret,
                     struct error *err);

/* Streams that use it live on. NULL is fine. */
void tls_context_free(struct tls_context *context);

struct tls_stream;

/* Does not own the fd. NULL when out of memory. */
struct tls_stream *tls_stream_new(struct tls_context *context, int fd);

enum io_status tls_stream_handshake(struct tls_stream *s);

/* ALPN chose h2; meaningful after the handshake. */
bool tls_stream_is_http2(const struct tls_stream *s);

/* *ret_len is set on IO_DONE and then > 0. */
enum io_status tls_stream_read(struct tls_stream *s, void *to, size_t room, size_t *ret_len);
enum io_status tls_stream_write(struct tls_stream *s, const void *from, size_t len,
                                size_t *ret_len);

/* Bytes that were taken from the socket and wait inside: no poll will tell of them. */
bool tls_stream_has_pending(const struct tls_stream *s);

/* Says good-bye when the stream is sound, without waiting for the answer. NULL is fine. */
void tls_stream_free(struct tls_stream *s);

#endif
