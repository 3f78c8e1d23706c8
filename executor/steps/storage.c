#include "executor/steps/storage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/steps/mounts.h"
#include "executor/steps/storage_backend.h"
#include "executor/steps/storage_host.h"

enum {
    BYTES_PER_INODE = 16384, /* ext4's own ratio, when the request names no inode limit */
    INODES_MIN = 1024,
    DEFAULT_ID = 1000, /* owner of spare units; others are given to their user when taken */
};

static const char *const place_names[PLACES] = {"storages", "ephemeral", "snapshots", "images",
                                                "trash"};

void storage_hex_name(char *ret, const uint8_t *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        ret[2 * i] = digits[bytes[i] >> 4];
        ret[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret[2 * n] = '\0';
}

static bool read_hex(const char *name, uint8_t *ret, size_t n)
{
    if (strlen(name) != 2 * n) {
        return false;
    }
    for (size_t i = 0; i < 2 * n; i++) {
        char c = name[i];
        int v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (v < 0) {
            return false;
        }
        ret[i / 2] = (uint8_t)(i % 2 ? ret[i / 2] | v : v << 4);
    }
    return true;
}

static bool id_is_none(const struct storage_id *id)
{
    static const struct storage_id none;
    return memcmp(id, &none, sizeof none) == 0;
}

int storage_loop_attach(int file_fd, char *ret_path, size_t size)
{
    AUTO_FD int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control == -1) {
        return -errno;
    }
    for (int tries = 0; tries < 64; tries++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number == -1) {
            return -errno;
        }
        (void)snprintf(ret_path, size, "/dev/loop%d", number);
        (void)mknod(ret_path, S_IFBLK | 0600, makedev(7, (unsigned)number));
        AUTO_FD int fd = open(ret_path, O_RDWR | O_CLOEXEC);
        if (fd == -1) {
            return -errno;
        }
        struct loop_config config = {
            .fd = (uint32_t)file_fd,
            .info = {.lo_flags = LO_FLAGS_AUTOCLEAR},
        };
        if (ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
            return fd_take(&fd);
        }
        if (errno != EBUSY) { /* somebody else was faster */
            return -errno;
        }
    }
    return -EBUSY;
}

int storage_run_program(const char *const *argv)
{
    pid_t child = fork();
    if (child == -1) {
        return -errno;
    }
    if (child == 0) {
        (void)setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
        int null_fd = open("/dev/null", O_WRONLY);
        if (null_fd != -1) {
            (void)dup2(null_fd, 1);
            (void)dup2(null_fd, 2);
        }
        (void)execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    int status;
    while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return WIFEXITED(status) && WEXITSTATUS(status) == 127 ? -ENOENT : -ENOEXEC;
    }
    return 0;
}

int storage_move_to_trash(int parent_fd, const char *name, int trash_fd, unsigned trash_number)
{
    char target[32];
    (void)snprintf(target, sizeof target, "t%u", trash_number);
    return renameat(parent_fd, name, trash_fd, target) == -1 ? -errno : 0;
}

int storage_unit_remove(struct storage_host *host, enum place place, const char *name)
{
    return host->backend->remove(host->places[place], name, host->places[PLACE_TRASH],
                                 host->trash_next++);
}

static int open_places(struct storage_host *host, struct error *err)
{
    for (int i = 0; i < PLACES; i++) {
        if (mkdirat(host->pool, place_names[i], 0700) == -1 && errno != EEXIST) {
            return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "mkdir '%s/%s'",
                                   host->pool_path, place_names[i]);
        }
        host->places[i] = openat(host->pool, place_names[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (host->places[i] == -1) {
            return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "open '%s/%s'",
                                   host->pool_path, place_names[i]);
        }
    }
    return 0;
}

static int each_entry(int dir_fd, int (*visit)(void *context, const char *name), void *context)
{
    AUTO_FD int scan = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = scan == -1 ? NULL : fdopendir(scan);
    if (!dir) {
        return -errno;
    }
    (void)fd_take(&scan);
    struct dirent *entry;
    int r = 0;
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            r = visit(context, entry->d_name);
        }
    }
    (void)closedir(dir);
    return r;
}

static int trash_number_visit(void *context, const char *name)
{
    struct storage_host *host = context;
    unsigned number;
    if (sscanf(name, "t%u", &number) == 1 && number >= host->trash_next) {
        host->trash_next = number + 1;
    }
    return 0;
}

static int remove_ephemeral_visit(void *context, const char *name)
{
    struct storage_host *host = context;
    (void)storage_unit_remove(host, PLACE_EPHEMERAL, name);
    return 0;
}

/* What a killed predecessor had copied in part. */
static int remove_copy_visit(void *context, const char *name)
{
    if (strncmp(name, STORAGE_COPY_PREFIX, strlen(STORAGE_COPY_PREFIX)) == 0) {
        (void)storage_unit_remove(context, PLACE_STORAGES, name);
    }
    return 0;
}

static int remove_snapshot_copy_visit(void *context, const char *name)
{
    if (strncmp(name, STORAGE_COPY_PREFIX, strlen(STORAGE_COPY_PREFIX)) == 0) {
        (void)storage_unit_remove(context, PLACE_SNAPSHOTS, name);
    }
    return 0;
}

static int choose_backend(struct storage_host *host, const struct storage_config *config,
                          struct error *err)
{
    const struct storage_backend *const all[] = {&storage_backend_project, &storage_backend_btrfs,
                                                 &storage_backend_image};
    struct error each;
    char *why = host->rejected;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (config->backend != 0 && config->backend != all[i]->kind) {
            continue;
        }
        if (all[i]->open_pool(config, host->pool_path, &host->pool, &each) == 0) {
            host->backend = all[i];
            return 0;
        }
        size_t used = strlen(why);
        (void)snprintf(why + used, sizeof host->rejected - used, "%s%s: %.300s", used ? "; " : "",
                       all[i]->name, each.text);
    }
    return error_set(err, STATUS_FAILED_PRECONDITION, "no way to limit disk usage works: %s", why);
}

int storage_host_open(const struct storage_config *config, struct storage_host **ret,
                      struct error *err)
{
    struct storage_host *host = calloc(1, sizeof *host);
    if (!host) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for storages");
    }
    host->pool = -1;
    for (int i = 0; i < PLACES; i++) {
        host->places[i] = -1;
    }
    int n = snprintf(host->pool_path, sizeof host->pool_path, "%s/pool", config->state_dir);
    int r = 0;
    if (n < 0 || (size_t)n >= sizeof host->pool_path ||
        (mkdir(host->pool_path, 0700) == -1 && errno != EEXIST)) {
        r = error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "mkdir '%s'", host->pool_path);
    }
    r = r < 0 ? r : choose_backend(host, config, err);
    r = r < 0 ? r : open_places(host, err);
    if (r < 0) {
        storage_host_close(host);
        return r;
    }
    (void)each_entry(host->places[PLACE_TRASH], trash_number_visit, host);
    (void)each_entry(host->places[PLACE_EPHEMERAL], remove_ephemeral_visit, host);
    (void)each_entry(host->places[PLACE_STORAGES], remove_copy_visit, host);
    (void)each_entry(host->places[PLACE_SNAPSHOTS], remove_snapshot_copy_visit, host);
    *ret = host;
    return 0;
}

void storage_host_close(struct storage_host *host)
{
    if (!host) {
        return;
    }
    while (host->open) {
        storage_close(host->open, false);
    }
    for (unsigned i = 0; i < host->spare_count; i++) {
        (void)storage_unit_remove(host, PLACE_EPHEMERAL, host->spares[i]);
    }
    for (int i = 0; i < PLACES; i++) {
        fd_close(&host->places[i]);
    }
    fd_close(&host->pool);
    if (host->backend && host->backend->close_pool) {
        host->backend->close_pool(host->pool_path);
    }
    free(host);
}

enum storage_backend_kind storage_host_backend(const struct storage_host *host)
{
    return host->backend->kind;
}

const char *storage_host_backend_name(const struct storage_host *host)
{
    return host->backend->name;
}

int storage_host_device(const struct storage_host *host, struct block_device *ret)
{
    return host->backend->device(host->pool, ret);
}

const char *storage_host_rejected(const struct storage_host *host)
{
    return host->rejected;
}

int storage_host_trash_fd(const struct storage_host *host)
{
    return host->places[PLACE_TRASH];
}

int storage_host_images_fd(const struct storage_host *host)
{
    return host->places[PLACE_IMAGES];
}

struct layout_entry {
    const char *name;
    mode_t mode;
    bool is_users;
};

static const struct layout_entry workspace_layout[] = {
    {"workspace", 0755, true}, {"home", 0755, true},   {"tmp", 01777, false},
    {"var-tmp", 01777, false}, {"upper", 0755, false}, {"work", 0700, false},
};

static const struct layout_entry build_layout[] = {
    {"out", 0755, false},
    {"home", 0700, false},
    {"tmp", 01777, false},
    {"var-tmp", 01777, false},
};

static int make_layout(int fd, bool is_build, uint32_t uid, uint32_t gid)
{
    const struct layout_entry *layout = is_build ? build_layout : workspace_layout;
    size_t count = is_build ? sizeof build_layout / sizeof *build_layout
                            : sizeof workspace_layout / sizeof *workspace_layout;
    for (size_t i = 0; i < count; i++) {
        const struct layout_entry *e = &layout[i];
        if (mkdirat(fd, e->name, 0700) == -1 || fchmodat(fd, e->name, e->mode, 0) == -1 ||
            (e->is_users && fchownat(fd, e->name, uid, gid, AT_SYMLINK_NOFOLLOW) == -1)) {
            return -errno;
        }
    }
    return 0;
}

static int give_to_user(int fd, uint32_t uid, uint32_t gid)
{
    if (uid == DEFAULT_ID && gid == DEFAULT_ID) {
        return 0;
    }
    for (size_t i = 0; i < sizeof workspace_layout / sizeof *workspace_layout; i++) {
        const struct layout_entry *e = &workspace_layout[i];
        if (e->is_users && fchownat(fd, e->name, uid, gid, AT_SYMLINK_NOFOLLOW) == -1) {
            return -errno;
        }
    }
    return 0;
}

/* A unit with the layout of a workspace, owned by the default ids. */
static int make_spare(struct storage_host *host, char *ret_name)
{
    (void)snprintf(ret_name, STORAGE_NAME_BYTES, "spare-%u", host->spare_next++);
    int parent = host->places[PLACE_EPHEMERAL];
    int r = host->backend->make(parent, ret_name, 0);
    AUTO_FD int fd = -1;
    r = r < 0 ? r : host->backend->open(parent, ret_name, &fd);
    return r < 0 ? r : make_layout(fd, false, DEFAULT_ID, DEFAULT_ID);
}

bool storage_pool_fill(struct storage_host *host, unsigned want)
{
    if (!host->backend->has_spares || host->spare_count >= want ||
        host->spare_count >= STORAGE_SPARES_MAX ||
        make_spare(host, host->spares[host->spare_count]) < 0) {
        return false;
    }
    host->spare_count++;
    return true;
}

static int make_unit(struct storage *s, const struct storage_request *request)
{
    struct storage_host *host = s->host;
    int parent = host->places[s->place];
    int r;
    if (!id_is_none(&request->from)) {
        char from[STORAGE_NAME_BYTES];
        storage_hex_name(from, request->from.bytes, sizeof request->from.bytes);
        r = host->backend->copy(host->places[PLACE_SNAPSHOTS], from, parent, s->name, false);
        return r < 0 ? r : host->backend->open(parent, s->name, &s->fd);
    }
    if (!request->is_build && host->spare_count > 0) {
        const char *spare = host->spares[--host->spare_count];
        if (renameat(host->places[PLACE_EPHEMERAL], spare, parent, s->name) == -1) {
            return -errno;
        }
        r = host->backend->open(parent, s->name, &s->fd);
        return r < 0 ? r : give_to_user(s->fd, request->uid, request->gid);
    }
    r = host->backend->make(parent, s->name, request->disk_bytes);
    r = r < 0 ? r : host->backend->open(parent, s->name, &s->fd);
    return r < 0 ? r : make_layout(s->fd, request->is_build, request->uid, request->gid);
}

bool storage_is_in_use(const struct storage_host *host, const struct storage_id *id)
{
    for (const struct storage *s = host->open; s; s = s->next) {
        if (memcmp(&s->id, id, sizeof *id) == 0) {
            return true;
        }
    }
    return storage_is_copied(host, id);
}

static uint64_t inodes_of(const struct storage_request *request)
{
    uint64_t by_size = request->disk_bytes / BYTES_PER_INODE;
    return request->inodes ? request->inodes : by_size < INODES_MIN ? INODES_MIN : by_size;
}

static int open_or_make(struct storage *s, const struct storage_request *request, struct error *err)
{
    struct storage_host *host = s->host;
    int r = host->backend->open(host->places[s->place], s->name, &s->fd);
    if (memcmp(&host->copied, &s->id, sizeof s->id) == 0) {
        memset(&host->copied, 0, sizeof host->copied);
        s->was_made = true;
    }
    if (r == -ENOENT) {
        s->was_made = true;
        r = make_unit(s, request);
        if (r == -ENOENT && !id_is_none(&request->from)) {
            return error_set(err, STATUS_NOT_FOUND, "the snapshot to begin from does not exist");
        }
    }
    if (r < 0) {
        return error_set_errno(err, STATUS_INTERNAL, -r, "open storage '%s'", s->name);
    }
    r = host->backend->limit(host->places[s->place], s->name, s->fd, request->disk_bytes,
                             inodes_of(request));
    return r < 0 ? error_set_errno(err, STATUS_INTERNAL, -r, "limit storage '%s' to %llu bytes",
                                   s->name, (unsigned long long)request->disk_bytes)
                 : 0;
}

int storage_open(struct storage_host *host, const struct storage_request *request,
                 struct storage **ret, struct error *err)
{
    if (storage_is_in_use(host, &request->id)) {
        return error_set(err, STATUS_FAILED_PRECONDITION, "the storage is in use by a sandbox");
    }
    if (request->inodes && !host->backend->limits_inodes) {
        return error_set(
            err, STATUS_FAILED_PRECONDITION,
            "a limit of inodes cannot be put in force: disk is limited by %s here, "
            "which does not count them (remedy: project quota, see executor/README.md)",
            host->backend->name);
    }
    struct storage *s = calloc(1, sizeof *s);
    if (!s) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for a storage");
    }
    s->host = host;
    s->id = request->id;
    s->place = request->is_ephemeral ? PLACE_EPHEMERAL : PLACE_STORAGES;
    s->fd = -1;
    storage_hex_name(s->name, request->id.bytes, sizeof request->id.bytes);
    s->next = host->open;
    host->open = s;
    int r = open_or_make(s, request, err);
    if (r < 0) {
        storage_close(s, s->was_made);
        return r;
    }
    *ret = s;
    return 0;
}

bool storage_was_made(const struct storage *storage)
{
    return storage->was_made;
}

int storage_directory(const struct storage *storage)
{
    return storage->fd;
}

int storage_read_usage(const struct storage *storage, struct storage_usage *ret)
{
    return storage->host->backend->usage(storage->fd, ret);
}

int storage_mount(const struct storage *storage, int userns_fd, int *ret, struct error *err)
{
    int r = mounts_clone_idmapped(storage->fd, userns_fd, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (r < 0) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, -r,
                               "idmapped mount of a storage (needs Linux 5.15 on btrfs, 5.12 on "
                               "ext4)");
    }
    *ret = r;
    return 0;
}

static void storage_forget(struct storage *storage)
{
    struct storage **at = &storage->host->open;
    while (*at && *at != storage) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = storage->next;
    }
    fd_close(&storage->fd);
    if (storage->host->backend->close) {
        storage->host->backend->close(storage->host->places[storage->place], storage->name);
    }
}

void storage_close(struct storage *storage, bool remove)
{
    if (!storage) {
        return;
    }
    storage_forget(storage);
    if (remove || storage->place == PLACE_EPHEMERAL) {
        (void)storage_unit_remove(storage->host, storage->place, storage->name);
    }
    free(storage);
}

int storage_delete(struct storage_host *host, const struct storage_id *id, struct error *err)
{
    char name[STORAGE_NAME_BYTES];
    storage_hex_name(name, id->bytes, sizeof id->bytes);
    if (storage_is_in_use(host, id)) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "storage '%s' is in use by a sandbox: destroy that first", name);
    }
    int r = storage_unit_remove(host, PLACE_STORAGES, name);
    if (r == -ENOENT) {
        r = storage_unit_remove(host, PLACE_SNAPSHOTS, name);
    }
    if (r == -ENOENT) {
        return error_set(err, STATUS_NOT_FOUND, "storage '%s' does not exist", name);
    }
    return r < 0 ? error_set_errno(err, STATUS_INTERNAL, -r, "remove storage '%s'", name) : 0;
}

int storage_snapshot(struct storage_host *host, const struct storage_id *from,
                     const struct storage_id *to, struct error *err)
{
    char from_name[STORAGE_NAME_BYTES];
    char to_name[STORAGE_NAME_BYTES];
    storage_hex_name(from_name, from->bytes, sizeof from->bytes);
    storage_hex_name(to_name, to->bytes, sizeof to->bytes);
    if (host->backend->copies_at_rest_only && storage_is_in_use(host, from)) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "storage '%s' is in use: with %s it can be copied only when its sandbox "
                         "has stopped",
                         from_name, host->backend->name);
    }
    int r = host->backend->copy(host->places[PLACE_STORAGES], from_name,
                                host->places[PLACE_SNAPSHOTS], to_name, true);
    if (r == -ENOENT) {
        r = host->backend->copy(host->places[PLACE_EPHEMERAL], from_name,
                                host->places[PLACE_SNAPSHOTS], to_name, true);
    }
    if (r == -ENOENT) {
        return error_set(err, STATUS_NOT_FOUND, "storage '%s' does not exist", from_name);
    }
    if (r == -EEXIST) {
        return error_set(err, STATUS_ALREADY_EXISTS, "snapshot '%s' exists", to_name);
    }
    return r < 0 ? error_set_errno(err, STATUS_INTERNAL, -r, "snapshot storage '%s'", from_name)
                 : 0;
}

int storage_commit(struct storage *storage, const struct image_id *image, uint64_t *ret_bytes,
                   struct error *err)
{
    struct storage_host *host = storage->host;
    char name[STORAGE_NAME_BYTES];
    storage_hex_name(name, image->bytes, sizeof image->bytes);
    struct storage_usage usage = {0};
    (void)host->backend->usage(storage->fd, &usage);
    *ret_bytes = usage.bytes;
    AUTO_FD int root = fd_open_beneath(storage->fd, "out/rootfs", O_PATH | O_DIRECTORY);
    int r = 0;
    if (root < 0) {
        r = error_set(err, STATUS_FAILED_PRECONDITION,
                      "the build left no directory /build/out/rootfs (%s)", strerror(-root));
    } else if (storage_image_exists(host, image)) {
        r = error_set(err, STATUS_ALREADY_EXISTS, "image '%s' exists", name);
    }
    fd_close(&root);
    storage_forget(storage);
    if (r == 0 && renameat2(host->places[storage->place], storage->name, host->places[PLACE_IMAGES],
                            name, RENAME_NOREPLACE) == -1) {
        r = error_set_errno(err, STATUS_INTERNAL, errno, "rename a build's storage to image '%s'",
                            name);
    }
    if (r < 0) {
        (void)storage_unit_remove(host, storage->place, storage->name);
    }
    free(storage);
    return r;
}

bool storage_image_exists(struct storage_host *host, const struct image_id *image)
{
    char name[STORAGE_NAME_BYTES];
    storage_hex_name(name, image->bytes, sizeof image->bytes);
    return faccessat(host->places[PLACE_IMAGES], name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int storage_image_mount(struct storage_host *host, const struct image_id *image, int userns_fd,
                        int *ret, struct error *err)
{
    char name[STORAGE_NAME_BYTES];
    storage_hex_name(name, image->bytes, sizeof image->bytes);
    AUTO_FD int unit = -1;
    int r = host->backend->open(host->places[PLACE_IMAGES], name, &unit);
    if (r == -ENOENT) {
        return error_set(err, STATUS_NOT_FOUND, "image '%s' does not exist: build it first", name);
    }
    AUTO_FD int root = r < 0 ? r : fd_open_beneath(unit, "out/rootfs", O_RDONLY | O_DIRECTORY);
    r = root < 0 ? root
                 : mounts_clone_idmapped(root, userns_fd,
                                         MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (r < 0) {
        return error_set_errno(err, STATUS_INTERNAL, -r, "mount image '%s'", name);
    }
    *ret = r;
    return 0;
}

int storage_image_delete(struct storage_host *host, const struct image_id *image, struct error *err)
{
    char name[STORAGE_NAME_BYTES];
    storage_hex_name(name, image->bytes, sizeof image->bytes);
    int r = storage_unit_remove(host, PLACE_IMAGES, name);
    if (r == -ENOENT) {
        return error_set(err, STATUS_NOT_FOUND, "image '%s' does not exist", name);
    }
    return r < 0 ? error_set_errno(err, STATUS_INTERNAL, -r, "remove image '%s'", name) : 0;
}

struct list_context {
    void (*visit)(void *context, const uint8_t *id);
    void *context;
    size_t id_bytes;
};

static int list_visit(void *context, const char *name)
{
    const struct list_context *list = context;
    uint8_t id[32];
    if (read_hex(name, id, list->id_bytes)) {
        list->visit(list->context, id);
    }
    return 0;
}

int storage_list(struct storage_host *host, bool images,
                 void (*visit)(void *context, const uint8_t *id), void *context)
{
    struct list_context list = {visit, context, images ? 32 : 16};
    int r = each_entry(host->places[images ? PLACE_IMAGES : PLACE_STORAGES], list_visit, &list);
    if (r == 0 && !images) {
        r = each_entry(host->places[PLACE_EPHEMERAL], list_visit, &list);
    }
    if (r == 0 && !images) {
        r = each_entry(host->places[PLACE_SNAPSHOTS], list_visit, &list);
    }
    return r;
}
