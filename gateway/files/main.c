/* cordium-files: puts files into /workspace of a sandbox and takes files out of it. It runs inside,
 * as the sandbox's user, so whatever it does that user could do as well; static, because the image
 * may have no libc. The format is described in gateway/services/oneshot_files.h.
 *
 *     cordium-files put                              in the folder that the files go to
 *     cordium-files get COUNT-MAX BYTES-MAX PATTERN…
 *
 * Exit code 0, or 1 with one line about the reason on standard error. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/services/oneshot_file_kinds.h"
#include "gateway/services/oneshot_path.h"
#include "policy/base/utf8.h"

enum {
    PATH_BYTES_MAX = 4096,
    DEPTH_MAX = 64,
    ENTRIES_MAX = 200000, /* looked at; then the rest is left out */
    COPY_BYTES = 64 * 1024,
};

static int fail(const char *what, const char *path)
{
    fprintf(stderr, "%s '%s': %s\n", what, path, strerror(errno));
    return 1;
}

/* --- put --- */

static bool read_all(void *to, size_t n)
{
    return fread(to, 1, n, stdin) == n;
}

static uint64_t number(const unsigned char *bytes, size_t n)
{
    uint64_t v = 0;
    for (size_t i = n; i > 0; i--) {
        v = v << 8 | bytes[i - 1];
    }
    return v;
}

/* Makes the folders above `path`; a link in between is not followed. -1 with errno. */
static int open_parent(char *path, const char **ret_name)
{
    if (!oneshot_path_is_below(path)) {
        errno = EINVAL;
        return -1;
    }
    int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char *part = path;
    for (char *slash; dir >= 0 && (slash = strchr(part, '/')); part = slash + 1) {
        *slash = '\0';
        if (mkdirat(dir, part, 0755) == -1 && errno != EEXIST) {
            (void)close(dir);
            return -1;
        }
        int next = openat(dir, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        (void)close(dir);
        dir = next;
        *slash = '/';
    }
    *ret_name = part;
    return dir;
}

static bool copy_in(int fd, uint64_t size)
{
    char piece[COPY_BYTES];
    while (size > 0) {
        size_t n = size < sizeof piece ? (size_t)size : sizeof piece;
        if (!read_all(piece, n)) {
            errno = EPROTO;
            return false;
        }
        for (size_t done = 0; done < n;) {
            ssize_t k = write(fd, piece + done, n - done);
            if (k == -1 && errno != EINTR) {
                return false;
            }
            done += k > 0 ? (size_t)k : 0;
        }
        size -= n;
    }
    return true;
}

static int put_one(char *path, mode_t mode, uint64_t size)
{
    const char *name = path;
    int dir = open_parent(path, &name);
    if (dir == -1) {
        return fail("make the folder of", path);
    }
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
    (void)close(dir);
    if (fd == -1) {
        return fail("make", path);
    }
    bool is_fine = copy_in(fd, size) && fchmod(fd, mode) == 0;
    if (close(fd) == -1 || !is_fine) {
        return fail("write", path);
    }
    return 0;
}

static int put(void)
{
    unsigned char head[4];
    size_t n;
    while ((n = fread(head, 1, sizeof head, stdin)) == sizeof head) {
        char path[PATH_BYTES_MAX + 1];
        unsigned char rest[12];
        size_t len = (size_t)number(head, sizeof head);
        if (len == 0 || len > PATH_BYTES_MAX || !read_all(path, len) ||
            !read_all(rest, sizeof rest)) {
            errno = EPROTO;
            return fail("read", "input");
        }
        path[len] = '\0';
        int code = put_one(path, (mode_t)number(rest, 4) & 0777, number(rest + 4, 8));
        if (code) {
            return code;
        }
    }
    if (n != 0) {
        errno = EPROTO;
        return fail("read", "input");
    }
    return 0;
}

/* --- get --- */

struct search {
    char *const *patterns;
    int pattern_count;
    unsigned long count_left;
    unsigned long long bytes_left;
    unsigned long entries;
    uint32_t left_out;
    char path[PATH_BYTES_MAX + 1];
};

/* One part of a pattern against one part of a path. */
static bool match_part(const char *pattern, size_t pattern_len, const char *path, size_t path_len)
{
    char p[PATH_BYTES_MAX + 1];
    char s[PATH_BYTES_MAX + 1];
    if (pattern_len > PATH_BYTES_MAX || path_len > PATH_BYTES_MAX) {
        return false;
    }
    memcpy(p, pattern, pattern_len);
    memcpy(s, path, path_len);
    p[pattern_len] = s[path_len] = '\0';
    return fnmatch(p, s, FNM_NOESCAPE) == 0;
}

static bool is_any_folders(const char *pattern)
{
    return strncmp(pattern, "**", 2) == 0 && (pattern[2] == '/' || !pattern[2]);
}

/* "**" stands for any number of folders, none too. Only the last one that was met is tried with
 * more of them: what an earlier one could give, it can give as well, so that no pattern takes long.
 */
static bool match(const char *pattern, const char *path)
{
    const char *retry_pattern = NULL;
    const char *retry_path = NULL;
    for (;;) {
        if (is_any_folders(pattern)) {
            if (!pattern[2]) {
                return true;
            }
            retry_pattern = pattern += 3;
            retry_path = path;
            continue;
        }
        size_t n = strcspn(pattern, "/");
        size_t k = strcspn(path, "/");
        bool fits = match_part(pattern, n, path, k);
        if (fits && !pattern[n] && !path[k]) {
            return true;
        }
        if (fits && pattern[n] && path[k]) {
            pattern += n + 1;
            path += k + 1;
            continue;
        }
        k = retry_path ? strcspn(retry_path, "/") : 0;
        if (!retry_path || !retry_path[k]) {
            return false;
        }
        retry_path += k + 1;
        path = retry_path;
        pattern = retry_pattern;
    }
}

/* Whether anything below that folder can match. Only such folders are entered: however many files
 * lie elsewhere, they hide none that is asked for. */
static bool leads_below(const char *pattern, const char *folder)
{
    while (!is_any_folders(pattern)) {
        size_t n = strcspn(pattern, "/");
        size_t k = strcspn(folder, "/");
        if (!pattern[n] || !match_part(pattern, n, folder, k)) {
            return false;
        }
        if (!folder[k]) {
            return true;
        }
        pattern += n + 1;
        folder += k + 1;
    }
    return true;
}

static bool is_same(const char *pattern, const char *path)
{
    return strcmp(pattern, path) == 0;
}

static bool any_pattern(const struct search *s, bool (*fits)(const char *pattern, const char *path))
{
    for (int i = 0; i < s->pattern_count; i++) {
        if (fits(s->patterns[i], s->path)) {
            return true;
        }
    }
    return false;
}

/* "./a/./b" is "a/b". In place. */
static void drop_dots(char *pattern)
{
    char *to = pattern;
    for (const char *part = pattern; *part;) {
        size_t n = strcspn(part, "/");
        size_t with_slash = part[n] ? n + 1 : n;
        if (n != 1 || part[0] != '.') {
            memmove(to, part, with_slash);
            to += with_slash;
        }
        part += with_slash;
    }
    to -= to > pattern && to[-1] == '/';
    *to = '\0';
}

static void write_number(uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        (void)putchar((int)(v >> (8 * i) & 0xff));
    }
}

static void write_head(const struct search *s, const struct stat *st, unsigned kind, size_t len)
{
    size_t path_len = strlen(s->path);
    write_number(path_len, 4);
    (void)fwrite(s->path, 1, path_len, stdout);
    write_number(st->st_mode & 07777, 4);
    write_number((uint64_t)st->st_size, 8);
    write_number(kind, 1);
    write_number(len, 4);
}

/* NULL and a kind that says why, when it cannot be given. The caller frees. */
static char *read_file(const struct search *s, int dir, const char *name, const struct stat *st,
                       size_t *ret_len, unsigned *ret_kind)
{
    *ret_kind = ONESHOT_FILE_TOO_LARGE;
    if ((unsigned long long)st->st_size > s->bytes_left) {
        return NULL;
    }
    *ret_kind = ONESHOT_FILE_UNREADABLE;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    size_t size = (size_t)st->st_size;
    char *bytes = fd == -1 ? NULL : malloc(size + 1);
    size_t len = 0;
    while (bytes && len < size) {
        ssize_t n = read(fd, bytes + len, size - len);
        if (n <= 0 && !(n == -1 && errno == EINTR)) {
            break;
        }
        len += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (bytes) {
        *ret_kind = ONESHOT_FILE_REGULAR;
        *ret_len = len;
    }
    return bytes;
}

static void give(struct search *s, int dir, const char *name, const struct stat *st)
{
    char *bytes = NULL;
    size_t len = 0;
    unsigned kind = S_ISDIR(st->st_mode)    ? ONESHOT_FILE_FOLDER
                    : S_ISLNK(st->st_mode)  ? ONESHOT_FILE_LINK
                    : S_ISFIFO(st->st_mode) ? ONESHOT_FILE_PIPE
                    : S_ISSOCK(st->st_mode) ? ONESHOT_FILE_SOCKET
                    : S_ISREG(st->st_mode)  ? ONESHOT_FILE_REGULAR
                                            : ONESHOT_FILE_DEVICE;
    if (s->count_left == 0) {
        s->left_out++;
        return;
    }
    s->count_left--;
    if (kind == ONESHOT_FILE_REGULAR) {
        bytes = read_file(s, dir, name, st, &len, &kind);
    }
    write_head(s, st, kind, len);
    if (bytes) {
        (void)fwrite(bytes, 1, len, stdout);
        s->bytes_left -= len;
        free(bytes);
    }
}

static void walk(struct search *s, int dir, size_t path_len, unsigned depth);

static void visit_folder(struct search *s, int dir, const char *name, size_t path_len,
                         unsigned depth)
{
    int below =
        depth < DEPTH_MAX ? openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (below == -1) {
        s->left_out++;
        return;
    }
    walk(s, below, path_len, depth + 1);
}

static void visit(struct search *s, int dir, const char *name, size_t path_len, unsigned depth)
{
    struct stat st;
    int n =
        snprintf(s->path + path_len, sizeof s->path - path_len, "%s%s", path_len ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof s->path - path_len) {
        s->left_out++;
        return;
    }
    const bool is_wanted = any_pattern(s, match);
    const bool leads = any_pattern(s, leads_below);
    if (!is_wanted && !leads) {
        return;
    }
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == -1) {
        s->left_out++;
        return;
    }
    const bool is_folder = S_ISDIR(st.st_mode);
    if (is_folder ? !leads && !any_pattern(s, is_same) : !is_wanted) {
        return;
    }
    if (!utf8_is_valid(str_from(name))) {
        s->left_out++; /* cannot be told in the answer */
        return;
    }
    /* A folder is told only to who asked for it by its name. */
    if (!is_folder || any_pattern(s, is_same)) {
        give(s, dir, name, &st);
    }
    if (is_folder && leads) {
        visit_folder(s, dir, name, path_len + (size_t)n, depth);
    }
}

/* Takes the descriptor. */
static void walk(struct search *s, int dir, size_t path_len, unsigned depth)
{
    DIR *entries = fdopendir(dir);
    if (!entries) {
        (void)close(dir);
        s->left_out++;
        return;
    }
    struct dirent *e;
    while ((e = readdir(entries))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        if (++s->entries > ENTRIES_MAX) {
            s->left_out++;
            break;
        }
        visit(s, dirfd(entries), e->d_name, path_len, depth);
        s->path[path_len] = '\0';
    }
    (void)closedir(entries);
}

static int get(int argc, char **argv)
{
    struct search s = {
        .patterns = argv + 2,
        .pattern_count = argc - 2,
        .count_left = strtoul(argv[0], NULL, 10),
        .bytes_left = strtoull(argv[1], NULL, 10),
    };
    for (int i = 0; i < s.pattern_count; i++) {
        drop_dots(s.patterns[i]);
    }
    int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir == -1) {
        return fail("open", ".");
    }
    walk(&s, dir, 0, 0);
    write_number(UINT32_MAX, 4);
    write_number(s.left_out, 4);
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : fail("write", "output");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "put") == 0) {
        return put();
    }
    if (argc >= 5 && strcmp(argv[1], "get") == 0) {
        return get(argc - 2, argv + 2);
    }
    fputs("usage: cordium-files put | get COUNT-MAX BYTES-MAX PATTERN...\n", stderr);
    return 1;
}
