#ifndef TELEMETRY_SECRET_FILE_H
#define TELEMETRY_SECRET_FILE_H

#include <stddef.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

enum { SECRET_FILE_MAX_BYTES = 16 * 1024, SECRET_HEADERS_MAX = 32 };

/* Reads a file that nobody else may read: a regular one that belongs to this user or to root, mode
 * 0600 or less. The text lives in the arena. FAILED_PRECONDITION with the remedy; no error ever
 * quotes the content. */
int secret_file_read(const char *path, struct arena *arena, struct str *ret, struct error *err);

/* The HTTP headers of such a file: "Name: value" lines; empty ones and those that begin with '#' do
 * not count. INVALID_ARGUMENT with the line's number. */
int secret_file_headers(const char *path, struct arena *arena, const char *const **ret,
                        size_t *ret_count, struct error *err);

#endif
