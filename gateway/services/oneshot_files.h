#ifndef SERVICES_ONESHOT_FILES_H
#define SERVICES_ONESHOT_FILES_H

#include <stdbool.h>

#include "api/ext.pb-c.h"
#include "gateway/services/oneshot_file_kinds.h"
#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* Files go into a sandbox and come out of it through our program cordium-files, which runs inside
 * as the sandbox's user: the gateway itself opens nothing there. Integers are little-endian.
 *
 * In, on its standard input, until the end of file:
 *     u32 path length, path, u32 mode, u64 size, bytes
 * Out, on its standard output:
 *     u32 path length, path, u32 mode, u64 size of the file, u8 kind, u32 length, bytes
 *     … u32 0xffffffff, u32 files left out
 *
 * What comes out was written next to hostile code and is judged as such. */

#define ONESHOT_FILES_PROGRAM "/opt/cordium/bin/cordium-files"

enum { ONESHOT_FILES_OUT_MAX = 512 };

/* Appends one file. */
void oneshot_files_write(struct buf *out, const char *path, bool is_executable, struct str bytes);

struct oneshot_files {
    Ext__RunCollected **items;
    size_t count;
    uint32_t left_out;
};

/* Texts live in the arena. INVALID_ARGUMENT: it is not what our program writes. */
int oneshot_files_parse(struct str bytes, struct arena *arena, struct oneshot_files *ret,
                        struct error *err);

#endif
