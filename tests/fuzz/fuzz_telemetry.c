/* What telemetry reads: the answer of an OTLP receiver, and lines of the audit log on their way to
 * OTLP and syslog. The first byte chooses. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/telemetry/otlp_message.h"
#include "gateway/telemetry/syslog_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUTPUT_MAX_BYTES = 8 << 20 };

static void read_answer(struct str bytes)
{
    struct otlp_answer answer;
    struct error err;
    if (otlp_answer_read(bytes, &answer, &err) == 0 &&
        (answer.rejected > INT64_MAX || memchr(answer.reason, 0, sizeof answer.reason) == NULL)) {
        abort();
    }
}

static void write_log(struct str line)
{
    const struct otlp_source source = {"1", "2", "3"};
    const struct str lines[2] = {line, line};
    struct buf out;
    struct otlp_answer as_answer;
    struct error err;
    buf_init(&out, OUTPUT_MAX_BYTES);
    otlp_message_logs(&source, lines, 2, 1, &out);
    /* Its envelope is a message with one field, which reads as any other. */
    if (!out.failed && otlp_answer_read(buf_str(&out), &as_answer, &err) < 0) {
        abort();
    }
    buf_free(&out);
}

static void write_syslog(struct str line)
{
    const struct syslog_source source = {.facility = 13, .host = "host", .pid = "1"};
    struct buf plain;
    struct buf counted;
    buf_init(&plain, OUTPUT_MAX_BYTES);
    buf_init(&counted, OUTPUT_MAX_BYTES);
    syslog_message_write(&source, SYSLOG_DATAGRAM, line, &plain);
    syslog_message_write(&source, SYSLOG_COUNTED, line, &counted);
    if (!plain.failed && !counted.failed) {
        char count[24];
        int n = snprintf(count, sizeof count, "%zu ", plain.len);
        struct str rest = str_make(counted.ptr + n, counted.len - (size_t)n);
        if (!str_starts_with(buf_str(&counted), str_from(count)) ||
            !str_eq(rest, buf_str(&plain)) || !str_ends_with(buf_str(&plain), line) ||
            memchr(plain.ptr, '\n', plain.len - line.len)) {
            abort();
        }
    }
    buf_free(&plain);
    buf_free(&counted);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    struct str bytes = str_make(data + 1, size - 1);
    switch (data[0] % 3) {
    case 0:
        read_answer(bytes);
        break;
    case 1:
        write_log(bytes);
        break;
    case 2:
        write_syslog(bytes);
        break;
    }
    return 0;
}
