#ifndef EXECUTOR_IMAGE_ACCOUNT_H
#define EXECUTOR_IMAGE_ACCOUNT_H

#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"

/* The user that a workspace runs as. Text lives in the arena. */
struct account {
    const char *user;
    const char *home;       /* with symbolic links of the image resolved */
    const char *shell;      /* login shell that is there and is one; "" when the image has none */
    const char *exec_shell; /* the first of bash, sh, zsh that is there; "" when none is */
    uint32_t uid;
    uint32_t gid;
};

enum { ACCOUNT_ID_MAX = 65533 };

/* Picks the user as Cordium does: `octelium` if the image has one, else the one with uid 1000, else
 * adds `octelium` 1000:1000 to passwd, group and, where there is one, shadow; no program of the
 * image is run. Makes the home directory and gives it to the user.
 *
 * FAILED_PRECONDITION when the image's own octelium is root or has an id over ACCOUNT_ID_MAX. */
int account_choose(int root_fd, struct arena *arena, struct account *ret, struct error *err);

#endif
