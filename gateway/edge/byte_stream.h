#ifndef EDGE_BYTE_STREAM_H
#define EDGE_BYTE_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/edge/tls_stream.h"

/* The bytes of a connection: TLS, or a plain socket. Owns neither before byte_stream_open() and
 * both after it. */
struct byte_stream {
    int fd;
    struct tls_stream *tls; /* NULL: plain */
};

/* Takes a non-blocking socket; it is closed when this fails. context NULL: plain. */
bool byte_stream_open(struct byte_stream *s, int fd, struct tls_context *context);

enum io_status byte_stream_handshake(struct byte_stream *s);

/* *ret_len is set on IO_DONE and then > 0. */
enum io_status byte_stream_read(struct byte_stream *s, void *to, size_t room, size_t *ret_len);
enum io_status byte_stream_write(struct byte_stream *s, const void *from, size_t len,
                                 size_t *ret_len);
bool byte_stream_has_pending(const struct byte_stream *s);
void byte_stream_close(struct byte_stream *s);

#endif
