#ifndef TESTS_EXECUTOR_WORLD_H
#define TESTS_EXECUTOR_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "executor/client/executor_client.h"

/* A daemon of our own, its client, and an image of busybox. Needs root, cgroups, loop devices,
 * busybox-static and mkfs.btrfs. */

struct world {
    char dir[64];
    char socket[128];
    uint32_t uid_base; /* other runs of this test may go on at the same time */
    pid_t daemon;
    unsigned descriptors; /* the next daemon's RLIMIT_NOFILE; 0 = ours */
    struct executor_client *client;
    struct executor_digest image;
    bool done;
    struct executor_reply reply;
    uint64_t exited_runs[64];
    struct executor_run_exit exits[64];
    size_t exit_count;
    struct executor_sandbox_gone gone;
    unsigned gone_count;
    struct executor_network_denied denied; /* the last */
    unsigned denied_count;
};

/* One daemon for all tests of a suite; Check has no place of its own for what a suite shares. NULL
 * when the tests cannot run here. */
extern struct world *world;

#define SKIP_WITHOUT_WORLD()                                                                       \
    if (!world) {                                                                                  \
        return;                                                                                    \
    }

struct executor_callback world_callback(struct world *w);
bool world_pump_once(struct world *w, int timeout_ms);
int world_wait_reply(struct world *w, int sent, const struct error *err);
void world_reply_ok(struct world *w, int sent, const struct error *err);
void world_shell(const char *command);
void world_write_config(const struct world *w, const char *extra);
pid_t world_start_daemon(const struct world *w);
void world_connect_client(struct world *w);
struct executor_uuid world_new_uuid(void);
struct executor_sandbox_spec world_default_spec(const struct world *w);
void world_create(struct world *w, const struct executor_sandbox_spec *spec);
void world_destroy(struct world *w, const struct executor_sandbox_spec *spec);
uint64_t world_start(struct world *w, const struct executor_sandbox_spec *spec, const char *script,
                     uint32_t uid, uint32_t flags, const int fds[3]);
struct executor_run_exit world_wait_exit(struct world *w, uint64_t run);
struct executor_run_exit world_run_script(struct world *w, const struct executor_sandbox_spec *spec,
                                          const char *script, uint32_t uid, char *ret_text,
                                          size_t size);
void world_import_image(struct world *w, const char *change, struct executor_digest *ret);
void world_set_up(void);
void world_tear_down(void);

#endif
