#ifndef PROC_FD_H
#define PROC_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* An fd that closes itself at the end of its scope:  AUTO_FD int fd = -1; */
#define AUTO_FD __attribute__((cleanup(fd_cleanup)))

void fd_cleanup(int *fd);

/* Closes *fd when it is open and sets it to -1. errno is kept. */
void fd_close(int *fd);

/* Hands an fd over: returns it and sets *fd to -1. */
int fd_take(int *fd);

/* Writes all of a short text to a file beneath dir_fd with one write(2), as procfs and cgroupfs
 * want it. 0 or -errno. */
int fd_write_file(int dir_fd, const char *path, const char *text);
int fd_write_file_u64(int dir_fd, const char *path, uint64_t value);

/* Writes all of it, however many write(2) it takes. 0 or -errno; then some of it may be there. */
int fd_write_all(int fd, const void *data, size_t size);

/* Reads up to size - 1 bytes of a file and ends them with NUL. Length or -errno. */
ssize_t fd_read_file(int dir_fd, const char *path, char *text, size_t size);

/* A number that is the whole content of a file, or the value after "key " in a flat keyed file.
 * 0 or -errno (-ENODATA when it is not there). */
int fd_read_file_u64(int dir_fd, const char *path, uint64_t *ret);
int fd_read_key_u64(int dir_fd, const char *path, const char *key, uint64_t *ret);

/* openat2(2) with O_CLOEXEC, beneath dir_fd and through no symbolic link at all: the only way in
 * which we walk into trees that others wrote. fd or -errno. */
int fd_open_beneath(int dir_fd, const char *path, uint64_t flags);

/* Makes a sealed memfd with this content. fd or -errno. */
int fd_sealed_memfd(const char *name, const void *data, size_t size);

/* Reads a whole sealed memfd of at most size_max bytes into a malloc'ed *ret. 0 or -errno;
 * -EPERM when it is not a memfd whose content and size are sealed. */
int fd_read_sealed(int fd, size_t size_max, uint8_t **ret, size_t *ret_size);

/* Removes a tree that others wrote, beneath dir_fd, following nothing and crossing no mount.
 * 0 or -errno of the first thing that could not be removed. */
int fd_remove_tree(int dir_fd, const char *name);

#endif
