/* A build's output is its author's: any bytes, cut anywhere. The log stays in its bounds, shows no
 * more than came in, and the report made of it is one line of JSON. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "executor/image/image_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The log writes to standard error, where the fuzzer's own messages would drown. */
static void silence(int *saved)
{
    int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    *saved = dup(STDERR_FILENO);
    if (null_fd == -1 || *saved == -1 || dup2(null_fd, STDERR_FILENO) == -1) {
        abort();
    }
    close(null_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct build_log *log = malloc(sizeof(*log));
    struct error err = {.status = STATUS_UNKNOWN, .text = "failed"};
    struct buf out;
    int saved;

    if (!log || size < 2) {
        free(log);
        return 0;
    }
    silence(&saved);
    size_t cut = data[1] % size;
    build_log_init(log, data[0] % 80);
    build_log_write(log, (const char *)data + 2, cut < 2 ? 0 : cut - 2);
    build_log_write(log, (const char *)data + (cut < 2 ? 2 : cut), size - (cut < 2 ? 2 : cut));
    build_log_flush(log);
    if (dup2(saved, STDERR_FILENO) == -1) {
        abort();
    }
    close(saved);
    for (unsigned i = 0; i < LOG_KEPT_LINES + 2; i++) {
        const char *line = build_log_kept(log, i);
        if (line && strnlen(line, LOG_KEPT_LINE_MAX) == LOG_KEPT_LINE_MAX) {
            abort();
        }
    }
    buf_init(&out, 4 << 20);
    image_failure_write(&out, &err, log);
    if (out.failed || memchr(out.ptr, '\n', out.len) != out.ptr + out.len - 1) {
        abort();
    }
    buf_free(&out);
    free(log);
    return 0;
}
