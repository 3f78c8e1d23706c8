#include "gateway/telemetry/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/fd.h"

static int check_owner(const char *path, const struct stat *st, struct error *err)
{
    if (!S_ISREG(st->st_mode)) {
        return error_set(err, STATUS_FAILED_PRECONDITION, "'%s' is no regular file", path);
    }
    if ((st->st_uid != geteuid() && st->st_uid != 0) || (st->st_mode & 077) != 0) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "'%s' holds a secret and others may read or change it: chown it to the "
                         "gateway's user and chmod 600",
                         path);
    }
    return 0;
}

int secret_file_read(const char *path, struct arena *arena, struct str *ret, struct error *err)
{
    struct stat st;
    char *text = arena_alloc(arena, SECRET_FILE_MAX_BYTES + 1);
    if (!text) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "read '%s': out of memory", path);
    }
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd == -1 || fstat(fd, &st) == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "open '%s'", path);
    }
    if (check_owner(path, &st, err) < 0) {
        return -err->status;
    }
    ssize_t n = 0;
    size_t used = 0;
    while (used <= SECRET_FILE_MAX_BYTES &&
           ((n = read(fd, text + used, SECRET_FILE_MAX_BYTES + 1 - used)) > 0 ||
            (n == -1 && errno == EINTR))) {
        used += n > 0 ? (size_t)n : 0;
    }
    if (n == -1) {
        return error_set_errno(err, STATUS_FAILED_PRECONDITION, errno, "read '%s'", path);
    }
    if (used > SECRET_FILE_MAX_BYTES) {
        return error_set(err, STATUS_FAILED_PRECONDITION, "'%s' is larger than %d bytes", path,
                         SECRET_FILE_MAX_BYTES);
    }
    *ret = str_make(text, used);
    return 0;
}

/* RFC 9110 §5.6.2 */
static bool is_token_char(char c)
{
    return c > 0x20 && c < 0x7f && !strchr("\"(),/:;<=>?@[\\]{}", c);
}

/* Those that the exporter makes itself. */
static bool is_reserved(struct str name)
{
    static const char *const names[] = {
        "content-type", "content-length", "content-encoding", "transfer-encoding", "host",
        "connection",   "expect"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (name.len == strlen(names[i]) && strncasecmp(name.ptr, names[i], name.len) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_header(struct str line)
{
    size_t n = 0;
    while (n < line.len && is_token_char(line.ptr[n])) {
        n++;
    }
    if (n == 0 || n + 1 >= line.len || line.ptr[n] != ':' || is_reserved(str_make(line.ptr, n))) {
        return false;
    }
    bool has_value = false;
    for (size_t i = n + 1; i < line.len; i++) {
        unsigned char c = (unsigned char)line.ptr[i];
        if ((c < 0x20 && c != '\t') || c >= 0x7f) {
            return false;
        }
        has_value = has_value || (c != ' ' && c != '\t');
    }
    return has_value;
}

int secret_file_headers(const char *path, struct arena *arena, const char *const **ret,
                        size_t *ret_count, struct error *err)
{
    struct str text;
    size_t count = 0;
    unsigned number = 0;
    const char **headers = arena_calloc(arena, SECRET_HEADERS_MAX, sizeof *headers);
    if (!headers) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "read '%s': out of memory", path);
    }
    if (secret_file_read(path, arena, &text, err) < 0) {
        return -err->status;
    }
    while (text.len > 0) {
        const char *newline = memchr(text.ptr, '\n', text.len);
        struct str line = str_make(text.ptr, newline ? (size_t)(newline - text.ptr) : text.len);
        text = str_make(text.ptr + line.len, text.len - line.len);
        text = newline ? str_make(text.ptr + 1, text.len - 1) : text;
        number++;
        if (line.len == 0 || line.ptr[0] == '#') {
            continue;
        }
        if (!is_header(line) || count == SECRET_HEADERS_MAX) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "%s:%u: expected at most %d lines `Name: value` of printable ASCII, "
                             "and none of the headers that a request has anyway",
                             path, number, SECRET_HEADERS_MAX);
        }
        headers[count] = arena_strndup(arena, line.ptr, line.len);
        if (!headers[count++]) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED, "read '%s': out of memory", path);
        }
    }
    *ret = headers;
    *ret_count = count;
    return 0;
}
