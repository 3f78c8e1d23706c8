#include "executor/proc/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void log_line(const char *format, ...)
{
    char line[2048];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(line, sizeof line - 1, format, ap);
    va_end(ap);
    if (n < 0) {
        return;
    }
    size_t used = strnlen(line, sizeof line - 2);
    for (size_t i = 0; i < used; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
    line[used++] = '\n';
    (void)!write(STDERR_FILENO, line, used);
}
