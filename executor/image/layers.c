#include "executor/image/layers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "executor/proc/fd.h"

enum { LOWER_MAX = 64 << 10, NAMES_MAX = 64 << 10, VALUE_MAX = 64 << 10 };

int layers_find(const char *storage, const char *mounted, struct arena *arena, struct layers *ret,
                struct error *err)
{
    const char *end = strrchr(mounted, '/');
    char *text = arena_alloc(arena, LOWER_MAX);
    const char *path =
        end ? arena_printf(arena, "%.*s/lower", (int)(end - mounted), mounted) : NULL;

    if (!text || !path || strncmp(mounted, storage, strlen(storage)) != 0) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "'%s' is no overlay of the build's storage", mounted);
    }
    ssize_t n = fd_read_file(AT_FDCWD, path, text, LOWER_MAX);
    if (n <= 0 || n >= LOWER_MAX - 1) {
        return error_set(err, STATUS_FAILED_PRECONDITION, "cannot read %s", path);
    }
    ret->count = 0;
    for (char *rest = text, *layer; (layer = strsep(&rest, ":\n")) != NULL;) {
        if (layer[0] == 0) {
            continue;
        }
        if (ret->count == LAYERS_MAX) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED, "more than %d layers", LAYERS_MAX);
        }
        /* "l/NAME", a short link to "../ID/diff". */
        const char *directory = arena_printf(arena, "%s/overlay/%s", storage, layer);
        if (!directory) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
        }
        ret->directories[ret->count++] = directory;
    }
    return 0;
}

static bool is_overlay_attribute(const char *name)
{
    return strncmp(name, "user.overlay.", 13) == 0 || strncmp(name, "trusted.overlay.", 16) == 0;
}

static bool is_opaque(int fd)
{
    char value = 0;
    return (fgetxattr(fd, "user.overlay.opaque", &value, 1) == 1 && value == 'y') ||
           (fgetxattr(fd, "trusted.overlay.opaque", &value, 1) == 1 && value == 'y');
}

/* Attributes that the target has are kept; a name that may not be set here is passed over, as by
 * the layers' unpacking before. */
static int copy_attributes(int from, int to)
{
    char names[NAMES_MAX], value[VALUE_MAX];
    ssize_t length = flistxattr(from, names, sizeof(names));

    if (length == -1) {
        return errno == ENOTSUP ? 0 : -errno;
    }
    for (ssize_t i = 0; i < length; i += (ssize_t)strlen(names + i) + 1) {
        if (is_overlay_attribute(names + i)) {
            continue;
        }
        ssize_t n = fgetxattr(from, names + i, value, sizeof(value));
        if (n >= 0 && fsetxattr(to, names + i, value, (size_t)n, 0) == -1 && errno != EPERM &&
            errno != ENOTSUP) {
            return -errno;
        }
    }
    return 0;
}

static int copy_directory_facts(int from, int to)
{
    struct stat st;

    if (fstat(from, &st) == -1 || fchown(to, st.st_uid, st.st_gid) == -1 ||
        fchmod(to, st.st_mode & 07777) == -1) {
        return -errno;
    }
    int r = copy_attributes(from, to);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    if (r == 0 && futimens(to, times) == -1) {
        r = -errno;
    }
    return r;
}

static int empty_directory(int fd)
{
    DIR *dir = fdopendir(openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int r = dir ? 0 : -errno;

    while (dir && r == 0) {
        struct dirent *d = readdir(dir);
        if (!d) {
            break;
        }
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
            r = fd_remove_tree(fd, d->d_name);
        }
    }
    if (dir) {
        (void)closedir(dir);
    }
    return r;
}

static int merge(int from, int to, unsigned depth);

static int merge_child_directory(int from, int to, const char *name, unsigned depth)
{
    struct stat st;

    if (fstatat(to, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode) &&
        unlinkat(to, name, 0) == -1) {
        return -errno;
    }
    if (mkdirat(to, name, 0700) == -1 && errno != EEXIST) {
        return -errno;
    }
    AUTO_FD int child_from = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    AUTO_FD int child_to = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (child_from == -1 || child_to == -1) {
        return -errno;
    }
    return merge(child_from, child_to, depth + 1);
}

static int merge_entry(int from, int to, const char *name, unsigned depth)
{
    struct stat st;

    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) == -1) {
        return -errno;
    }
    if (S_ISDIR(st.st_mode)) {
        return merge_child_directory(from, to, name, depth);
    }
    bool is_whiteout = S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0);
    if (!is_whiteout && linkat(from, name, to, name, 0) == 0) {
        return 0;
    }
    if (!is_whiteout && errno != EEXIST) {
        return -errno;
    }
    int r = fd_remove_tree(to, name);
    if (is_whiteout) {
        return r == -ENOENT ? 0 : r;
    }
    return r == 0 && linkat(from, name, to, name, 0) == -1 ? -errno : r;
}

/* A layer's directory over what the layers below it made. */
static int merge(int from, int to, unsigned depth)
{
    int r = 0;

    if (depth > LAYERS_DEPTH_MAX) {
        return -ELOOP;
    }
    if (is_opaque(from)) {
        r = empty_directory(to);
    }
    int fd = r == 0 ? openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = fd != -1 ? fdopendir(fd) : NULL;
    if (!dir) {
        r = r < 0 ? r : -errno;
        fd_close(&fd);
        return r;
    }
    for (struct dirent *d = readdir(dir); d && r == 0; d = readdir(dir)) {
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
            r = merge_entry(from, to, d->d_name, depth);
        }
    }
    (void)closedir(dir);
    return r == 0 ? copy_directory_facts(from, to) : r;
}

int layers_link(const struct layers *layers, int out_fd, struct error *err)
{
    for (size_t i = layers->count; i > 0; i--) {
        const char *path = layers->directories[i - 1];
        AUTO_FD int layer = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int r = layer == -1 ? -errno : merge(layer, out_fd, 0);
        if (r < 0) {
            return error_set_errno(err, STATUS_INTERNAL, -r, "link the layer %s", path);
        }
    }
    return 0;
}
