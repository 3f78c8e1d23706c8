#include "executor/image/account.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "executor/image/rootfs.h"
#include "policy/base/str.h"

enum { NAME_MAX_BYTES = 64, WANTED_ID = 1000 };

static const char NAME[] = "octelium";

/* One line of passwd: name:password:uid:gid:comment:home:shell (man 5 passwd). */
struct entry {
    struct str name;
    struct str home;
    struct str shell;
    uint32_t uid;
    uint32_t gid;
};

static bool next_line(struct str *rest, struct str *line)
{
    if (rest->len == 0) {
        return false;
    }
    const char *end = memchr(rest->ptr, '\n', rest->len);
    size_t n = end ? (size_t)(end - rest->ptr) : rest->len;
    *line = (struct str){rest->ptr, n};
    rest->ptr += end ? n + 1 : n;
    rest->len -= end ? n + 1 : n;
    return true;
}

/* Splits a line at colons; the fields that are missing are empty. Returns how many there were. */
static size_t split(struct str line, struct str *fields, size_t count)
{
    size_t found = 0;

    memset(fields, 0, count * sizeof(*fields));
    while (found < count) {
        const char *colon = line.len > 0 ? memchr(line.ptr, ':', line.len) : NULL;
        size_t n = colon ? (size_t)(colon - line.ptr) : line.len;
        fields[found++] = (struct str){line.ptr, n};
        if (!colon) {
            break;
        }
        line.ptr += n + 1;
        line.len -= n + 1;
    }
    return found;
}

/* Decimal digits alone: what a lenient reader makes of "1e3", "-1" or "" could be 0. */
static bool parse_id(struct str s, uint32_t *ret)
{
    uint64_t v = 0;

    if (s.len == 0 || s.len > 10) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') {
            return false;
        }
        v = v * 10 + (uint64_t)(s.ptr[i] - '0');
    }
    if (v > UINT32_MAX) {
        return false;
    }
    *ret = (uint32_t)v;
    return true;
}

static bool parse_entry(struct str line, struct entry *ret)
{
    struct str f[7];

    if (split(line, f, 7) < 6 || f[0].len == 0 || f[0].len > NAME_MAX_BYTES || str_has_nul(line) ||
        f[5].len >= ROOTFS_PATH_MAX || f[6].len >= ROOTFS_PATH_MAX) {
        return false;
    }
    ret->name = f[0];
    ret->home = f[5];
    ret->shell = f[6];
    return parse_id(f[2], &ret->uid) && parse_id(f[3], &ret->gid);
}

/* The first entry counts, as in getpwnam(3) and getpwuid(3). */
static bool find_entry(struct str passwd, const char *name, uint32_t uid, struct entry *ret)
{
    struct str line;

    while (next_line(&passwd, &line)) {
        if (parse_entry(line, ret) && (name ? str_is(ret->name, name) : ret->uid == uid)) {
            return true;
        }
    }
    return false;
}

static bool find_group(struct str groups, const char *name, uint32_t *ret_gid)
{
    struct str line;
    struct str f[4];

    while (next_line(&groups, &line)) {
        if (split(line, f, 4) >= 3 && str_is(f[0], name) && parse_id(f[2], ret_gid)) {
            return true;
        }
    }
    return false;
}

/* The file's text, empty when there is none. Anything else that is no plain file is an error. */
static int read_table(int root_fd, const char *path, struct arena *arena, struct str *ret,
                      struct error *err)
{
    *ret = STR_NONE;
    int r = rootfs_read_file(root_fd, path, arena, ret);
    if (r == -EINVAL) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "the image's %s is not a regular file; make it one in the Dockerfile",
                         path);
    }
    if (r < 0 && r != -ENOENT) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, -r, "read the image's %s", path);
    }
    return 0;
}

static int append_line(int root_fd, struct arena *arena, const char *name, struct str old,
                       const char *line, mode_t mode, struct error *err)
{
    bool ends = old.len == 0 || old.ptr[old.len - 1] == '\n';
    char *text = arena_alloc(arena, old.len + strlen(line) + 2);

    if (!text) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for /etc/%s", name);
    }
    if (old.len > 0) {
        memcpy(text, old.ptr, old.len);
    }
    size_t n = old.len;
    if (!ends) {
        text[n++] = '\n';
    }
    memcpy(text + n, line, strlen(line));
    n += strlen(line);
    int r = rootfs_replace_file(root_fd, "etc", name, (struct str){text, n}, mode);
    if (r < 0) {
        return error_set_errno(err, STATUS_INTERNAL, -r, "write the image's /etc/%s", name);
    }
    return 0;
}

static const char *first_program(int root_fd, const char *const *paths)
{
    for (; *paths; paths++) {
        if (rootfs_is_executable(root_fd, *paths)) {
            return *paths;
        }
    }
    return "";
}

static const char *const EXEC_SHELLS[] = {
    "/bin/bash",   "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh",
    "/usr/bin/sh", "/bin/zsh",      "/usr/bin/zsh",        NULL};
static const char *const LOGIN_SHELLS[] = {"/bin/zsh", "/usr/bin/zsh", "/bin/bash", "/usr/bin/bash",
                                           "/bin/sh",  "/usr/bin/sh",  NULL};

static const char *login_shell(int root_fd, struct arena *arena, struct str shell)
{
    if (shell.len > 0 && shell.ptr[0] == '/' && !str_ends_with(shell, STR("/nologin")) &&
        !str_ends_with(shell, STR("/false"))) {
        const char *path = arena_strndup(arena, shell.ptr, shell.len);
        if (path && rootfs_is_executable(root_fd, path)) {
            return path;
        }
    }
    return first_program(root_fd, LOGIN_SHELLS);
}

static int add_user(int root_fd, struct arena *arena, struct str passwd, struct entry *ret,
                    struct error *err)
{
    struct str groups, shadow;
    uint32_t gid = WANTED_ID;
    char line[128];

    int r = read_table(root_fd, "/etc/group", arena, &groups, err);
    if (r == 0) {
        r = read_table(root_fd, "/etc/shadow", arena, &shadow, err);
    }
    /* A group of that name may be there with another number; a group 1000 with another name. */
    if (r == 0 && (!find_group(groups, NAME, &gid) || gid == 0 || gid > ACCOUNT_ID_MAX)) {
        gid = WANTED_ID;
        (void)snprintf(line, sizeof(line), "%s:x:%u:\n", NAME, gid);
        r = append_line(root_fd, arena, "group", groups, line, 0644, err);
    }
    if (r == 0 && shadow.len > 0) {
        (void)snprintf(line, sizeof(line), "%s:*:19000:0:99999:7:::\n", NAME);
        r = append_line(root_fd, arena, "shadow", shadow, line, 0640, err);
    }
    if (r < 0) {
        return r;
    }
    if (passwd.len == 0) {
        passwd = STR("root:x:0:0:root:/root:/bin/sh\n");
    }
    const char *shell = first_program(root_fd, EXEC_SHELLS);
    (void)snprintf(line, sizeof(line), "%s:x:%u:%u::/home/%s:%s\n", NAME, WANTED_ID, gid, NAME,
                   shell[0] ? shell : "/bin/sh");
    r = append_line(root_fd, arena, "passwd", passwd, line, 0644, err);
    if (r < 0) {
        return r;
    }
    *ret = (struct entry){.name = STR("octelium"),
                          .home = STR("/home/octelium"),
                          .shell = str_from(shell),
                          .uid = WANTED_ID,
                          .gid = gid};
    return 0;
}

/* A home that is no directory of its own ("/", "/nonexistent", "/tmp") or is hidden in a
 * workspace by a mount gives way to /home/NAME. */
static bool home_is_usable(struct str home)
{
    static const char *const TAKEN[] = {"/dev",     "/proc",  "/sys",       "/run",        "/tmp",
                                        "/var/tmp", "/etc",   "/usr",       "/bin",        "/sbin",
                                        "/lib",     "/lib64", "/workspace", "/opt/cordium"};

    if (home.len < 2 || home.ptr[0] != '/' || str_is(home, "/nonexistent") ||
        str_is(home, "/var") || str_is(home, "/home") || str_is(home, "/opt") ||
        str_is(home, "/root")) {
        return false;
    }
    for (size_t i = 0; i < sizeof(TAKEN) / sizeof(TAKEN[0]); i++) {
        struct str taken = str_from(TAKEN[i]);
        if (str_starts_with(home, taken) && (home.len == taken.len || home.ptr[taken.len] == '/')) {
            return false;
        }
    }
    return !memmem(home.ptr, home.len, "//", 2) && !memmem(home.ptr, home.len, "/.", 2);
}

static int make_home(int root_fd, struct arena *arena, const struct entry *e, const char **ret,
                     struct error *err)
{
    char resolved[ROOTFS_PATH_MAX];

    for (int attempt = 0; attempt < 2; attempt++) {
        bool own = attempt == 0;
        if (own && !home_is_usable(e->home)) {
            continue;
        }
        const char *home = own ? arena_strndup(arena, e->home.ptr, e->home.len)
                               : arena_printf(arena, "/home/u%u", e->uid);
        int r = home ? rootfs_make_home(root_fd, home, e->uid, e->gid, resolved) : -ENOMEM;
        if (r == 0 && home_is_usable(str_from(resolved))) {
            *ret = arena_strdup(arena, resolved);
            return *ret ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
        }
        if (!own) {
            return error_set_errno(err, STATUS_FAILED_PRECONDITION, r < 0 ? -r : EINVAL,
                                   "make the home directory %s", home ? home : "");
        }
    }
    return error_set(err, STATUS_INTERNAL, "make the home directory");
}

int account_choose(int root_fd, struct arena *arena, struct account *ret, struct error *err)
{
    struct entry e;
    struct str passwd;

    int r = read_table(root_fd, "/etc/passwd", arena, &passwd, err);
    if (r < 0) {
        return r;
    }
    if (find_entry(passwd, NAME, 0, &e)) {
        if (e.uid == 0 || e.uid > ACCOUNT_ID_MAX || e.gid > ACCOUNT_ID_MAX) {
            return error_set(err, STATUS_FAILED_PRECONDITION,
                             "the image's user '%s' has uid %u and gid %u; a workspace needs a uid "
                             "of 1 to %d",
                             NAME, e.uid, e.gid, ACCOUNT_ID_MAX);
        }
    } else if (!find_entry(passwd, NULL, WANTED_ID, &e) || e.gid > ACCOUNT_ID_MAX) {
        r = add_user(root_fd, arena, passwd, &e, err);
        if (r < 0) {
            return r;
        }
    }
    r = make_home(root_fd, arena, &e, &ret->home, err);
    if (r < 0) {
        return r;
    }
    ret->user = arena_strndup(arena, e.name.ptr, e.name.len);
    ret->shell = login_shell(root_fd, arena, e.shell);
    ret->exec_shell = first_program(root_fd, EXEC_SHELLS);
    ret->uid = e.uid;
    ret->gid = e.gid;
    return ret->user ? 0 : error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
}
