#include "policy/base/status.h"

#include <stdio.h>
#include <string.h>

static const char *const names[STATUS_COUNT] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

const char *status_name(int status)
{
    return status >= 0 && status < STATUS_COUNT ? names[status] : names[STATUS_UNKNOWN];
}

int status_from_name(const char *name)
{
    for (int i = 0; i < STATUS_COUNT; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

int error_vset(struct error *err, int status, const char *format, va_list ap)
{
    if (err) {
        err->status = status;
        err->line = 0;
        err->column = 0;
        (void)vsnprintf(err->text, sizeof err->text, format, ap); /* cut by contract */
    }
    return -status;
}

int error_set(struct error *err, int status, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    error_vset(err, status, format, ap);
    va_end(ap);
    return -status;
}

int error_set_at(struct error *err, int status, uint32_t line, uint32_t column, const char *format,
                 ...)
{
    va_list ap;
    va_start(ap, format);
    error_vset(err, status, format, ap);
    va_end(ap);
    if (err) {
        err->line = line;
        err->column = column;
    }
    return -status;
}

int error_set_errno(struct error *err, int status, int error_number, const char *format, ...)
{
    if (!err) {
        return -status;
    }
    va_list ap;
    va_start(ap, format);
    error_vset(err, status, format, ap);
    va_end(ap);
    size_t used = strlen(err->text);
    (void)snprintf(err->text + used, sizeof err->text - used, ": %s", strerror(error_number));
    return -status;
}

int error_wrap(struct error *err, const char *format, ...)
{
    if (!err) {
        return -STATUS_UNKNOWN;
    }
    char before[ERROR_TEXT_MAX];
    memcpy(before, err->text, sizeof before);
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(err->text, sizeof err->text, format, ap);
    va_end(ap);
    size_t used = strlen(err->text);
    (void)snprintf(err->text + used, sizeof err->text - used, ": %s", before);
    return -err->status;
}
