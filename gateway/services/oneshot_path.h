#ifndef SERVICES_ONESHOT_PATH_H
#define SERVICES_ONESHOT_PATH_H

#include <stdbool.h>
#include <string.h>

/* Whether the path stays below where it begins: relative, without ".." and empty parts. The gateway
 * asks it of what comes out of a sandbox, and cordium-files of what goes into one: neither trusts
 * the other. */
static inline bool oneshot_path_is_below(const char *path)
{
    for (const char *part = path;; part++) {
        size_t n = strcspn(part, "/");
        if (n == 0 || (n == 2 && memcmp(part, "..", 2) == 0)) {
            return false;
        }
        part += n;
        if (!*part) {
            return true;
        }
    }
}

#endif
