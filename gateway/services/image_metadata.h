#ifndef SERVICES_IMAGE_METADATA_H
#define SERVICES_IMAGE_METADATA_H

#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* What is known of an image: the line that the image program prints at its end. It was written
 * inside a build sandbox by a program that worked on somebody's files, so every member is checked.
 */
struct image_metadata {
    const char *user;        /* "" when the image has no name for it */
    const char *home;        /* absolute */
    const char *shell;       /* of logins: absolute, or "" */
    const char *exec_shell;  /* for commands: absolute, or "" */
    const char *working_dir; /* absolute, or "" */
    const char *digest;      /* "sha256:…" of the manifest, or "" */
    uint32_t uid;            /* 1 to 65533 */
    uint32_t gid;
    const char *const *env; /* NAME=value */
    size_t env_count;
    uint64_t size_bytes;
};

enum {
    IMAGE_METADATA_MAX_BYTES = 256 * 1024,
    IMAGE_ENV_MAX = 256,
};

/* Texts live in the arena. INVALID_ARGUMENT names the member that is wrong. */
int image_metadata_parse(struct str json, struct arena *arena, struct image_metadata *ret,
                         struct error *err);

/* The line of a failure: {"error": {"message", "step", "steps", "command", "exitCode",
 * "lastLines"}}, as one text for people. NULL when it is no such line. */
const char *image_failure_text(struct str json, struct arena *arena);

#endif
