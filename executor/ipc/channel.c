#include "executor/ipc/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "executor/proc/fd.h"

void channel_fds_close(struct channel_fds *fds)
{
    for (size_t i = 0; i < fds->count; i++) {
        fd_close(&fds->fds[i]);
    }
    fds->count = 0;
}

int channel_fds_take(struct channel_fds *fds, size_t i)
{
    return i < fds->count ? fd_take(&fds->fds[i]) : -1;
}

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(CHANNEL_FDS_MAX * sizeof(int))];
};

int channel_send(int fd, const struct iovec *parts, size_t part_count, const int *fds,
                 size_t fd_count)
{
    union control control;
    struct msghdr msg = {.msg_iov = (struct iovec *)parts, .msg_iovlen = part_count};
    if (fd_count > CHANNEL_FDS_MAX) {
        return -E2BIG;
    }
    if (fd_count > 0) {
        memset(&control, 0, sizeof control);
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
    }
    for (;;) {
        if (sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) != -1) {
            return 0;
        }
        if (errno != EINTR) {
            return -errno;
        }
    }
}

static void take_fds(struct msghdr *msg, struct channel_fds *ret_fds)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int received;
            memcpy(&received, CMSG_DATA(c) + i * sizeof(int), sizeof received);
            if (ret_fds->count < CHANNEL_FDS_MAX) {
                ret_fds->fds[ret_fds->count++] = received;
            } else {
                (void)close(received);
            }
        }
    }
}

ssize_t channel_recv(int fd, void *data, size_t size, struct channel_fds *ret_fds)
{
    union control control;
    struct iovec part = {.iov_base = data, .iov_len = size};
    struct msghdr msg = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes,
    };
    ret_fds->count = 0;
    ssize_t n;
    do {
        n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    } while (n == -1 && errno == EINTR);
    if (n == -1) {
        return -errno;
    }
    take_fds(&msg, ret_fds);
    if (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
        channel_fds_close(ret_fds);
        return -EMSGSIZE;
    }
    return n;
}

int channel_peer(int fd, uid_t *ret_uid, pid_t *ret_pid)
{
    struct ucred cred;
    socklen_t n = sizeof cred;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n) == -1) {
        return -errno;
    }
    *ret_uid = cred.uid;
    *ret_pid = cred.pid;
    return 0;
}

int channel_widen(int fd, int bytes)
{
    return setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) == 0 ? 0 : -errno;
}

int channel_pair(int ret[2], bool nonblocking)
{
    int type = SOCK_SEQPACKET | SOCK_CLOEXEC | (nonblocking ? SOCK_NONBLOCK : 0);
    return socketpair(AF_UNIX, type, 0, ret) == 0 ? 0 : -errno;
}
