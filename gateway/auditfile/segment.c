#include "gateway/auditfile/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/base/str.h"

enum { DIGITS = 20, PREFIX_LEN = sizeof "audit-" - 1 };

void segment_format_name(uint64_t first_sequence, bool is_compressed, char *ret)
{
    (void)snprintf(ret, SEGMENT_NAME_SIZE, "audit-%020" PRIu64 ".jsonl%s", first_sequence,
                   is_compressed ? ".zst" : "");
}

bool segment_parse_name(const char *name, uint64_t *ret_first_sequence, bool *ret_is_compressed)
{
    uint64_t n = 0;
    if (strncmp(name, "audit-", PREFIX_LEN) != 0) {
        return false;
    }
    const char *p = name + PREFIX_LEN;
    for (int i = 0; i < DIGITS; i++, p++) {
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(n, 10U, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n)) {
            return false;
        }
    }
    bool is_compressed = strcmp(p, ".jsonl.zst") == 0;
    if (n == 0 || n == UINT64_MAX || (!is_compressed && strcmp(p, ".jsonl") != 0)) {
        return false;
    }
    *ret_first_sequence = n;
    *ret_is_compressed = is_compressed;
    return true;
}

/* Plain before compressed. */
static int compare(const void *a, const void *b)
{
    const struct segment *x = a;
    const struct segment *y = b;
    if (x->first_sequence != y->first_sequence) {
        return x->first_sequence < y->first_sequence ? -1 : 1;
    }
    return (int)x->is_compressed - (int)y->is_compressed;
}

static bool describe(const char *name, struct segment *ret)
{
    *ret = (struct segment){.is_active = strcmp(name, SEGMENT_ACTIVE_NAME) == 0};
    if (ret->is_active) {
        ret->first_sequence = UINT64_MAX;
    } else if (strlen(name) >= sizeof ret->name ||
               !segment_parse_name(name, &ret->first_sequence, &ret->is_compressed)) {
        return false;
    }
    memcpy(ret->name, name, strlen(name) + 1);
    return true;
}

/* 1 when it is there, 0 when it is gone or no file, or -errno. */
static int look_at(int dir_fd, struct segment *s)
{
    struct stat st;
    if (fstatat(dir_fd, s->name, &st, AT_SYMLINK_NOFOLLOW) == -1) {
        return errno == ENOENT ? 0 : -errno;
    }
    s->bytes = (uint64_t)st.st_size;
    s->modified_seconds = st.st_mtim.tv_sec;
    return S_ISREG(st.st_mode);
}

static int add(struct segment **list, size_t *count, size_t *room, const struct segment *s)
{
    if (*count == *room) {
        size_t more = *room ? *room * 2 : 64;
        struct segment *grown =
            more > SEGMENT_COUNT_MAX ? NULL : realloc(*list, more * sizeof **list);
        if (!grown) {
            return -ENOMEM;
        }
        *list = grown;
        *room = more;
    }
    (*list)[(*count)++] = *s;
    return 0;
}

/* 0 or -errno. *list is malloc'ed, also on failure. */
static int read_folder(DIR *dir, struct segment **list, size_t *count)
{
    size_t room = 0;
    int rc = 0;
    for (;;) {
        struct segment s;
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            return -errno;
        }
        rc = describe(entry->d_name, &s) ? look_at(dirfd(dir), &s) : 0;
        rc = rc == 1 ? add(list, count, &room, &s) : rc;
        if (rc < 0) {
            return rc;
        }
    }
}

/* Sorts, and lets the plain file stand for both. */
static size_t merge(struct segment *list, size_t count)
{
    size_t kept = 0;
    if (count > 0) {
        qsort(list, count, sizeof *list, compare);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && list[kept - 1].first_sequence == list[i].first_sequence) {
            list[kept - 1].has_both = true;
        } else {
            list[kept++] = list[i];
        }
    }
    return kept;
}

int segment_list(int dir_fd, struct arena *arena, struct segment **ret, size_t *ret_count,
                 struct error *err)
{
    struct segment *list = NULL;
    size_t count = 0;
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd == -1 ? NULL : fdopendir(fd);
    int rc = dir ? read_folder(dir, &list, &count) : -errno;
    if (dir) {
        (void)closedir(dir);
    } else if (fd != -1) {
        (void)close(fd);
    }
    count = merge(list, rc ? 0 : count);
    struct segment *copy = rc ? NULL : arena_memdup(arena, list, count * sizeof *list);
    free(list);
    if (rc == -ENOMEM || (rc == 0 && !copy)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "the audit log has too many files, or there is no memory to list them");
    }
    if (rc) {
        return error_set_errno(err, STATUS_UNAVAILABLE, -rc, "list the audit log's files");
    }
    *ret = copy;
    *ret_count = count;
    return 0;
}
