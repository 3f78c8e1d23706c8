#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* One set of codes for the whole product. The numbers are those of gRPC
 * (https://grpc.github.io/grpc/core/md_doc_statuscodes.html), so that an error made
 * deep in a library needs no translation on its way to the wire. Functions return 0
 * or the negated code. */
enum status {
    STATUS_OK = 0,
    STATUS_CANCELLED = 1,
    STATUS_UNKNOWN = 2,
    STATUS_INVALID_ARGUMENT = 3,
    STATUS_DEADLINE_EXCEEDED = 4,
    STATUS_NOT_FOUND = 5,
    STATUS_ALREADY_EXISTS = 6,
    STATUS_PERMISSION_DENIED = 7,
    STATUS_RESOURCE_EXHAUSTED = 8,
    STATUS_FAILED_PRECONDITION = 9,
    STATUS_ABORTED = 10,
    STATUS_OUT_OF_RANGE = 11,
    STATUS_UNIMPLEMENTED = 12,
    STATUS_INTERNAL = 13,
    STATUS_UNAVAILABLE = 14,
    STATUS_DATA_LOSS = 15,
    STATUS_UNAUTHENTICATED = 16,
};

enum { STATUS_COUNT = 17, ERROR_TEXT_MAX = 1024 };

/* What went wrong, for a person: names the object, the step and the remedy.
 * line and column count from 1 and are 0 when the error has no place in a text. */
struct error {
    int status; /* enum status, positive; 0 while unset */
    uint32_t line;
    uint32_t column;
    char text[ERROR_TEXT_MAX];
};

/* Sets *err (NULL is allowed) and returns -status, so that a failing function can
 * `return error_set(err, STATUS_NOT_FOUND, "Space '%s' does not exist", name);`.
 * A text that does not fit is cut at ERROR_TEXT_MAX - 1 bytes. */
int error_set(struct error *err, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int error_vset(struct error *err, int status, const char *format, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* As error_set(), with a place in the source text. */
int error_set_at(struct error *err, int status, uint32_t line, uint32_t column, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));

/* Appends ": " and strerror(error_number) to the formatted text. */
int error_set_errno(struct error *err, int status, int error_number, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts context in front of the text that is there: "context: text". Keeps status and
 * place; returns -err->status. */
int error_wrap(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "NOT_FOUND" for STATUS_NOT_FOUND; "UNKNOWN" for a number outside the set. */
const char *status_name(int status);

/* The code with that upper-case name, or -1. */
int status_from_name(const char *name);

#endif
