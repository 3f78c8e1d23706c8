#include "executor/image/engine_settings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "executor/proc/fd.h"

enum { SETTINGS_MAX = 1 << 20 };

int engine_file_write(int directory_fd, const char *name, const struct buf *content,
                      struct error *err)
{
    if (content->failed) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory for %s", name);
    }
    AUTO_FD int work = fd_open_beneath(directory_fd, "work", O_RDONLY | O_DIRECTORY);
    AUTO_FD int fd =
        openat(work, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    const uint8_t *p = content->ptr;
    size_t left = content->len;

    while (fd != -1 && left > 0) {
        ssize_t n = write(fd, p, left);
        if (n == -1 && errno != EINTR) {
            break;
        }
        p += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    if (fd == -1 || left > 0) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "write %s", name);
    }
    return 0;
}

/* A TOML basic string (toml.io, "String"). */
static void add_toml(struct buf *out, const char *text, size_t n)
{
    buf_add_cstr(out, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\') {
            buf_printf(out, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            buf_printf(out, "\\u%04x", c);
        } else {
            buf_add_u8(out, c);
        }
    }
    buf_add_cstr(out, "\"");
}

/* "docker.io=127.0.0.1:5000,insecure" as a [[registry]] with its mirror (man 5
 * containers-registries.conf). */
static int add_mirror(struct buf *out, const char *mirror, struct error *err)
{
    const char *equals = strchr(mirror, '=');
    const char *comma = equals ? strchr(equals, ',') : NULL;

    if (!equals || equals == mirror || equals[1] == 0 || equals[1] == ',' ||
        (comma && strcmp(comma, ",insecure") != 0)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "mirror '%.200s' is not PREFIX=LOCATION or PREFIX=LOCATION,insecure",
                         mirror);
    }
    size_t prefix = (size_t)(equals - mirror);
    buf_add_cstr(out, "[[registry]]\nprefix = ");
    add_toml(out, mirror, prefix);
    buf_add_cstr(out, "\nlocation = ");
    add_toml(out, mirror, prefix);
    buf_add_cstr(out, "\n[[registry.mirror]]\nlocation = ");
    add_toml(out, equals + 1, comma ? (size_t)(comma - equals) - 1 : strlen(equals + 1));
    buf_printf(out, "\ninsecure = %s\n", comma ? "true" : "false");
    return 0;
}

int engine_settings_write(int directory_fd, const struct engine_options *options, struct error *err)
{
    static const char STORAGE[] = "[storage]\ndriver = \"overlay\"\n";
    static const char POLICY[] = "{\"default\": [{\"type\": \"insecureAcceptAnything\"}]}\n";
    /* A user's limits are those of the sandbox; the usual ones would be refused there. */
    static const char CONTAINERS[] = "[containers]\ndefault_ulimits = []\n";
    struct buf b;
    int r = 0;

    buf_init(&b, SETTINGS_MAX);
    buf_add_cstr(&b, "unqualified-search-registries = [\"docker.io\"]\n"
                     "short-name-mode = \"permissive\"\n");
    for (size_t i = 0; i < options->mirror_count && r == 0; i++) {
        r = add_mirror(&b, options->mirrors[i], err);
    }
    r = r == 0 ? engine_file_write(directory_fd, "registries.conf", &b, err) : r;
    buf_clear(&b);
    buf_add_cstr(&b, STORAGE);
    r = r == 0 ? engine_file_write(directory_fd, "storage.conf", &b, err) : r;
    buf_clear(&b);
    buf_add_cstr(&b, POLICY);
    r = r == 0 ? engine_file_write(directory_fd, "policy.json", &b, err) : r;
    buf_clear(&b);
    buf_add_cstr(&b, CONTAINERS);
    r = r == 0 ? engine_file_write(directory_fd, "containers.conf", &b, err) : r;
    buf_free(&b);
    return r;
}
