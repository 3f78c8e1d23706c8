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

/* A file of mode 0600 that is there whole or not at all: it is written under another name beside
 * its own. Only regular files are replaced. Strings are in the arena. */
struct local_file {
    int fd;
    const char *path;
    char *fresh; /* the other name */
};

int local_file_begin(const char *path, struct arena *arena, struct local_file *ret,
                     struct error *err);

/* On the disk under its own name. Ends it in any case. */
int local_file_commit(struct local_file *file, struct error *err);

/* Leaves nothing; one that was committed or never begun ({.fd = -1}) is fine. */
void local_file_abandon(struct local_file *file);

/* Replaces a file of mode 0600 as a whole, in a folder that is made (0700) when it is missing. */
int local_file_write_private(const char *folder, const char *name, struct str content,
                             struct arena *arena, struct error *err);

#endif
