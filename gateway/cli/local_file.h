#ifndef CLI_LOCAL_FILE_H
#define CLI_LOCAL_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

enum { LOCAL_FILE_MAX_BYTES = 16 * 1024 * 1024 };

/* A whole file ("-": standard input) of at most LOCAL_FILE_MAX_BYTES, NUL-terminated, in the arena.
 */
int local_file_read(const char *path, struct arena *arena, struct str *ret, struct error *err);

/* Writes a file of another's choosing below a folder that is there: no "..", no absolute path, and
 * no symbolic link on the way is followed; folders in between are made. INVALID_ARGUMENT. */
int local_file_write_below(const char *folder, const char *path, unsigned mode, struct str content,
                           struct error *err);

/* Writes all of it, whatever the pieces; false: errno says why. */
bool local_file_write_all(int fd, struct str content);

/* Replaces a file of mode 0600 as a whole, in a folder that is made (0700) when it is missing. */
int local_file_write_private(const char *folder, const char *name, struct str content,
                             struct arena *arena, struct error *err);

#endif
