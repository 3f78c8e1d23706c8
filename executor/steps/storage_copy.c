#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "executor/steps/storage_host.h"

/* Copies of storages where the file system cannot share blocks: how long one takes is for the
 * sandbox that filled it to say, so that a child makes it under a name of its own, which becomes
 * the real one when all is there. */

enum { COPIES_MAX = 8, HIGH_FD = 512 };

struct storage_copy {
    struct storage_host *host;
    struct storage_id from_id;
    struct storage_id to_id;
    enum place from_place;
    enum place to_place;
    char from[STORAGE_NAME_BYTES];
    char name[STORAGE_NAME_BYTES];
    char temporary[STORAGE_NAME_BYTES];
    pid_t pid;
    struct storage_copy *next;
};

bool storage_is_copied(const struct storage_host *host, const struct storage_id *id)
{
    for (const struct storage_copy *c = host->copies; c; c = c->next) {
        if (memcmp(&c->from_id, id, sizeof *id) == 0 || memcmp(&c->to_id, id, sizeof *id) == 0) {
            return true;
        }
    }
    return false;
}

bool storage_copies_slowly(const struct storage_host *host)
{
    return host->backend->copies_at_rest_only;
}

static bool is_there(const struct storage_host *host, enum place place, const char *name)
{
    return faccessat(host->places[place], name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool storage_exists(const struct storage_host *host, const struct storage_id *id, bool is_ephemeral)
{
    char name[STORAGE_NAME_BYTES];
    storage_hex_name(name, id->bytes, sizeof id->bytes);
    return is_there(host, is_ephemeral ? PLACE_EPHEMERAL : PLACE_STORAGES, name);
}

/* Keeps two directories open and nothing else of the daemon's: not its lock, not its clients. The
 * exit status is an errno. */
static _Noreturn void copy_child(const struct storage_copy *c)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int from = fcntl(c->host->places[c->from_place], F_DUPFD_CLOEXEC, HIGH_FD);
    int to = fcntl(c->host->places[c->to_place], F_DUPFD_CLOEXEC, HIGH_FD);
    if (from == -1 || to <= from || close_range(3, (unsigned)from - 1, 0) == -1 ||
        (to > from + 1 && close_range((unsigned)from + 1, (unsigned)to - 1, 0) == -1) ||
        close_range((unsigned)to + 1, ~0U, 0) == -1) {
        _exit(EMFILE);
    }
    int r = c->host->backend->copy(from, c->from, to, c->temporary, c->to_place == PLACE_SNAPSHOTS);
    _exit(-r);
}

static int check_ends(const struct storage_copy *c, struct error *err)
{
    unsigned count = 0;
    for (const struct storage_copy *other = c->host->copies; other; other = other->next) {
        count++;
    }
    if (count >= COPIES_MAX) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "%u storages are being copied: try again when one is done", count);
    }
    if (!is_there(c->host, c->from_place, c->from)) {
        return error_set(err, STATUS_NOT_FOUND, "storage '%s' does not exist", c->from);
    }
    if (storage_is_in_use(c->host, &c->from_id) || storage_is_in_use(c->host, &c->to_id)) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "storage '%s' is in use: with %s it can be copied only when its sandbox "
                         "has stopped",
                         c->from, c->host->backend->name);
    }
    return is_there(c->host, c->to_place, c->name)
               ? error_set(err, STATUS_ALREADY_EXISTS, "storage '%s' exists", c->name)
               : 0;
}

static void copy_free(struct storage_copy *c)
{
    struct storage_copy **at = &c->host->copies;
    while (*at && *at != c) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = c->next;
    }
    free(c);
}

static enum place place_of(enum storage_copy_kind kind)
{
    return kind == STORAGE_COPY_TO_SNAPSHOT  ? PLACE_SNAPSHOTS
           : kind == STORAGE_COPY_TO_STORAGE ? PLACE_STORAGES
                                             : PLACE_EPHEMERAL;
}

static int copy_start(struct storage_copy *c, int *ret_pidfd, struct error *err)
{
    int r = check_ends(c, err);
    if (r < 0) {
        return r;
    }
    c->pid = fork();
    if (c->pid == 0) {
        copy_child(c);
    }
    *ret_pidfd = c->pid == -1 ? -1 : (int)syscall(SYS_pidfd_open, c->pid, 0);
    if (*ret_pidfd != -1) {
        return 0;
    }
    int saved = errno;
    if (c->pid != -1) {
        (void)kill(c->pid, SIGKILL);
        (void)waitpid(c->pid, NULL, 0);
        (void)storage_unit_remove(c->host, c->to_place, c->temporary);
    }
    return error_set_errno(err, STATUS_RESOURCE_EXHAUSTED, saved, "start to copy a storage");
}

int storage_copy_begin(struct storage_host *host, const struct storage_id *from,
                       const struct storage_id *to, enum storage_copy_kind kind,
                       struct storage_copy **ret, int *ret_pidfd, struct error *err)
{
    struct storage_copy *c = calloc(1, sizeof *c);
    if (!c) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory to copy a storage");
    }
    c->host = host;
    c->from_id = *from;
    c->to_id = *to;
    c->to_place = place_of(kind);
    storage_hex_name(c->from, from->bytes, sizeof from->bytes);
    storage_hex_name(c->name, to->bytes, sizeof to->bytes);
    (void)snprintf(c->temporary, sizeof c->temporary, "%s%.40s", STORAGE_COPY_PREFIX, c->name);
    c->from_place = kind != STORAGE_COPY_TO_SNAPSHOT          ? PLACE_SNAPSHOTS
                    : is_there(host, PLACE_STORAGES, c->from) ? PLACE_STORAGES
                                                              : PLACE_EPHEMERAL;
    int r = copy_start(c, ret_pidfd, err);
    if (r < 0) {
        free(c);
        return r;
    }
    c->next = host->copies;
    host->copies = c;
    *ret = c;
    return 0;
}

int storage_copy_end(struct storage_copy *c, struct error *err)
{
    int status = 0;
    int r = 0;
    while (waitpid(c->pid, &status, 0) == -1 && errno == EINTR) {
    }
    const int *to = &c->host->places[c->to_place];
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        r = error_set_errno(err, STATUS_INTERNAL, WIFEXITED(status) ? WEXITSTATUS(status) : EINTR,
                            "copy storage '%s'", c->from);
    } else if (renameat2(*to, c->temporary, *to, c->name, RENAME_NOREPLACE) == -1) {
        r = error_set_errno(err, STATUS_INTERNAL, errno, "put the copy of storage '%s' in place",
                            c->from);
    }
    if (r < 0) {
        (void)storage_unit_remove(c->host, c->to_place, c->temporary);
    } else if (c->to_place != PLACE_SNAPSHOTS) {
        c->host->copied = c->to_id;
    }
    copy_free(c);
    return r;
}
