#include "gateway/edge/byte_stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

bool byte_stream_open(struct byte_stream *s, int fd, struct tls_context *context)
{
    *s = (struct byte_stream){.fd = fd};
    if (!context) {
        return true;
    }
    s->tls = tls_stream_new(context, fd);
    if (!s->tls) {
        byte_stream_close(s);
        return false;
    }
    return true;
}

enum io_status byte_stream_handshake(struct byte_stream *s)
{
    return s->tls ? tls_stream_handshake(s->tls) : IO_DONE;
}

enum io_status byte_stream_read(struct byte_stream *s, void *to, size_t room, size_t *ret_len)
{
    if (s->tls) {
        return tls_stream_read(s->tls, to, room, ret_len);
    }
    ssize_t n = recv(s->fd, to, room, 0);
    if (n > 0) {
        *ret_len = (size_t)n;
        return IO_DONE;
    }
    if (n == 0) {
        return IO_CLOSED;
    }
    return errno == EAGAIN || errno == EINTR ? IO_WANT_READ : IO_BROKEN;
}

enum io_status byte_stream_write(struct byte_stream *s, const void *from, size_t len,
                                 size_t *ret_len)
{
    if (s->tls) {
        return tls_stream_write(s->tls, from, len, ret_len);
    }
    ssize_t n = send(s->fd, from, len, MSG_NOSIGNAL);
    if (n >= 0) {
        *ret_len = (size_t)n;
        return IO_DONE;
    }
    return errno == EAGAIN || errno == EINTR ? IO_WANT_WRITE : IO_BROKEN;
}

bool byte_stream_has_pending(const struct byte_stream *s)
{
    return s->tls && tls_stream_has_pending(s->tls);
}

void byte_stream_close(struct byte_stream *s)
{
    tls_stream_free(s->tls);
    s->tls = NULL;
    if (s->fd != -1) {
        (void)close(s->fd);
        s->fd = -1;
    }
}
