#include "executor/proc/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, LEVEL_ERROR = 3, LEVEL_WARNING = 4, LEVEL_INFO = 6 };

static size_t start_line(char *line, size_t room, int level)
{
    struct timespec now = {0, 0};
    struct tm tm;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (!gmtime_r(&now.tv_sec, &tm)) {
        return 0;
    }
    int n = snprintf(line, room, "<%d>%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ ", level,
                     tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                     now.tv_nsec / 1000000);
    return n > 0 && (size_t)n < room ? (size_t)n : 0;
}

static size_t add_escaped(char *line, size_t used, const char *text)
{
    /* Four bytes for the longest escape and one for the newline. */
    for (const char *p = text; *p && used + 5 < LINE_MAX_BYTES; p++) {
        unsigned char c = (unsigned char)*p;
        if (c >= 0x20 && c != 0x7F) {
            line[used++] = (char)c;
        } else {
            used += (size_t)snprintf(line + used, 5, "\\x%02x", c);
        }
    }
    line[used++] = '\n';
    return used;
}

static void log_line(int level, const char *format, va_list ap)
{
    char text[LINE_MAX_BYTES];
    char line[LINE_MAX_BYTES];
    (void)vsnprintf(text, sizeof text, format, ap);
    size_t used = add_escaped(line, start_line(line, sizeof line, level), text);
    /* Nobody could be told about a log that cannot be written. */
    ssize_t ignored = write(STDERR_FILENO, line, used);
    (void)ignored;
}

void log_error(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    log_line(LEVEL_ERROR, format, ap);
    va_end(ap);
}

void log_warning(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    log_line(LEVEL_WARNING, format, ap);
    va_end(ap);
}

void log_info(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    log_line(LEVEL_INFO, format, ap);
    va_end(ap);
}
