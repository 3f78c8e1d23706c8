#ifndef IPC_CHANNEL_H
#define IPC_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum { CHANNEL_FDS_MAX = 16 };

/* One received datagram's descriptors. All are CLOEXEC. */
struct channel_fds {
    int fds[CHANNEL_FDS_MAX];
    size_t count;
};

void channel_fds_close(struct channel_fds *fds);

/* Takes descriptor i out; -1 when there is none. */
int channel_fds_take(struct channel_fds *fds, size_t i);

/* Sends one datagram without blocking and without SIGPIPE. 0 or -errno (-EAGAIN: try later). */
int channel_send(int fd, const struct iovec *parts, size_t part_count, const int *fds,
                 size_t fd_count);

/* Receives one datagram into data. Its length (0 = the peer closed), or -errno; -EMSGSIZE when
 * the datagram or its descriptors did not fit, and then everything was dropped. */
ssize_t channel_recv(int fd, void *data, size_t size, struct channel_fds *ret_fds);

/* The peer's ids at connect time. 0 or -errno. */
int channel_peer(int fd, uid_t *ret_uid, pid_t *ret_pid);

/* Lets so many bytes (as the kernel counts them) wait in what fd sends, whatever net.core.wmem_max
 * says: needs CAP_NET_ADMIN. 0 or -errno; on failure it is as before. */
int channel_widen(int fd, int bytes);

/* A connected SOCK_SEQPACKET pair, CLOEXEC, non-blocking as told. 0 or -errno. */
int channel_pair(int ret[2], bool nonblocking);

#endif
