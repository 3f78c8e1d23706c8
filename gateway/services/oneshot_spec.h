#ifndef SERVICES_ONESHOT_SPEC_H
#define SERVICES_ONESHOT_SPEC_H

#include "api/ext.pb-c.h"
#include "executor/client/executor_client.h"
#include "gateway/request.h"
#include "policy/base/str.h"

/* What a Run asks for, judged and completed by pure functions: the words to execute and the limits
 * in force, each with who set it and what a caller may ask for at most. */

enum oneshot_limit_name {
    ONESHOT_WALL_MS,
    ONESHOT_GRACE_MS,
    ONESHOT_CPU_MS, /* 0: none */
    ONESHOT_CPU_MILLICORES,
    ONESHOT_MEMORY_MEGABYTES,
    ONESHOT_PIDS,
    ONESHOT_DISK_MEGABYTES,
    ONESHOT_STDOUT_BYTES,
    ONESHOT_STDERR_BYTES,
    ONESHOT_FILES_BYTES,
    ONESHOT_INODES, /* 0: not counted here */
    ONESHOT_SHM_MEGABYTES,
    ONESHOT_LIMIT_COUNT,
};

struct oneshot_limit {
    const char *name; /* as in the JSON of RunLimits */
    uint64_t value;
    uint64_t maximum;
    Ext__RunResult__Source set_by;
};

struct oneshot_plan {
    /* Either words, or a command for the image's shell. */
    const char *const *argv;
    size_t argc;
    const char *command;
    const char *program;   /* for lists: "python", "ls" */
    const char *code_file; /* where `text` goes, relative to /workspace; NULL: nowhere */
    /* The program's text, the command, or the words as one would write them for a shell. */
    struct str text;
    uint8_t text_sha256[32];
    struct oneshot_limit limits[ONESHOT_LIMIT_COUNT];
};

enum {
    ONESHOT_ARGS_MAX = 1024,
    ONESHOT_FILES_MAX = 256,   /* sent along */
    ONESHOT_PATTERNS_MAX = 64, /* of `collect` */
    ONESHOT_PATH_MAX = 1000,   /* bytes of a path or pattern */
    ONESHOT_KEY_MAX = 200,     /* bytes of an idempotency key */
    ONESHOT_ENV_MAX = 128,
    ONESHOT_EXTRA_INODES = 16, /* of a storage's own directories */
};

/* Checks all of the request but its limits, and finds what runs. Everything lives in the arena or
 * in the request. INVALID_ARGUMENT names the field and the remedy. */
int oneshot_plan_program(const Ext__RunRequest *request, struct arena *arena,
                         struct oneshot_plan *plan, struct error *err);

struct oneshot_surroundings {
    const Cordium__Template *template_;
    const Cordium__Space *space;
    const Cordium__ClusterConfig *cluster;
    const struct executor_host_report *host; /* may be NULL */
    uint32_t output_bytes_max;
};

/* Fills plan->limits. INVALID_ARGUMENT: one is over its maximum, which the text names;
 * FAILED_PRECONDITION: one that cannot be put in force here. */
int oneshot_plan_limits(const Ext__RunLimits *asked, const struct oneshot_surroundings *around,
                        struct oneshot_plan *plan, struct error *err);

/* CPU, memory and disk as the rest of the gateway has them. NULL when the arena is full. */
Cordium__Workspace__Spec__Limit *oneshot_plan_limit_message(const struct oneshot_plan *plan,
                                                            struct arena *arena);

#endif
