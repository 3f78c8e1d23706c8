#include "tests/bench/memory_use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned long memory_of_process_kib(int pid)
{
    char path[64];
    char line[256];
    unsigned long kib = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "Pss:", 4) == 0) {
            kib = strtoul(line + 4, NULL, 10);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return kib;
}

unsigned long memory_of_cgroup_kib(const char *folder)
{
    static const char *const names[] = {"memory.usage_in_bytes", "memory.current"};
    char path[4096];
    char text[64];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "r");
        const char *line = file ? fgets(text, sizeof text, file) : NULL;
        if (file) {
            (void)fclose(file);
        }
        if (line) {
            return (unsigned long)(strtoull(text, NULL, 10) / 1024);
        }
    }
    return 0;
}
