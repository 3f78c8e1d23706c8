#ifndef EXECUTOR_EXECUTOR_H
#define EXECUTOR_EXECUTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "executor/config.h"
#include "executor/init/self_test.h"
#include "executor/ipc/channel.h"
#include "executor/ipc/message.h"
#include "executor/sandbox_spec.h"
#include "executor/steps/cgroup.h"
#include "executor/steps/network.h"
#include "executor/steps/ns_pool.h"
#include "executor/steps/seccomp_filter.h"
#include "executor/steps/storage.h"
#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"

/* The whole state of the daemon, and what its parts say to each other. One thread; nothing here
 * waits for a sandbox or for the gateway. */

struct executor;
struct copy_job;

/* A descriptor in the poll set. */
struct source {
    int fd;
    void (*handle)(struct executor *ex, struct source *source, uint32_t events);
    struct source *next_free; /* freed after the current round of events */
};

struct outgoing {
    struct outgoing *next;
    size_t size;
    int fd;
    uint8_t data[];
};

/* A gateway. More than one may be connected while a new one takes over from an old. */
struct connection {
    struct source source; /* first */
    struct executor *ex;
    enum message_state state;
    struct connection *next;
    struct outgoing *queue_first;
    struct outgoing **queue_last;
    size_t queue_bytes;
    bool is_closed;
};

/* Where an answer goes. The connection is cleared when it closes. */
struct asker {
    struct connection *connection;
    uint32_t call;
    struct asker *next;
};

/* A forked first process that waits for its order. */
struct holder {
    uint32_t serial;
    int control; /* our end of its socket */
    int pidfd;   /* -1: the launcher has not answered yet */
};

enum { HOLDERS_MAX = 32 };

struct launcher {
    struct source source; /* first */
    pid_t pid;
    uint32_t next_serial;
    struct holder holders[HOLDERS_MAX];
    unsigned holder_count;
};

struct run {
    uint64_t id;
    struct sandbox *sandbox;
    struct cgroup_run *cgroup;
    struct run *next_of_sandbox;
    struct run *next_in_table;
    struct asker started; /* a run with a terminal is answered when the master is here */
    bool is_tty;
    bool terminal_is_due;
    bool kills_tree;
    bool was_killed;
    uint32_t kill_reason;
    bool main_was_oom_victim;    /* when we killed it */
    uint64_t oom_kills_outlived; /* kills for memory inside that were of others, for sure */
    uint64_t oom_kills_seen;     /* the same, as far as is known */
    uint64_t sandbox_oom_kills_before;
    int terminal; /* our copy of the master, for resizing; -1 */
    uint64_t begin_ns;
    uint64_t end_ns;
    bool has_ended; /* its program; the facts follow */
    uint32_t stage;
    int error_number;
    int wait_status;
    bool is_dying; /* its tree is being killed */
    struct run *next_dying;
    uint64_t dying_since_ns;
    uint64_t kill_again_ns;
    struct asker *killers; /* allocated; answered when the tree is dead */
};

enum sandbox_state { SANDBOX_STARTING, SANDBOX_RUNNING, SANDBOX_ENDING };

enum sandbox_time {
    TIME_ASKED,
    TIME_NAMESPACES,
    TIME_STORAGE,
    TIME_ROOT,
    TIME_CGROUP,
    TIME_SENT,
    TIME_FORKED,
    TIME_READY,
    TIMES,
};

struct sandbox {
    struct source control; /* first: our end of init's socket */
    struct source process; /* pidfd of init */
    struct executor *ex;
    struct executor_uuid id;
    struct sandbox *next_in_table;
    enum sandbox_state state;
    struct launcher *launcher;
    uint32_t serial;

    bool was_held; /* its first process was a holder: it takes its order by itself */
    bool is_launched;
    bool is_build;
    bool remove_storage;
    bool wants_proxy;
    bool has_range;
    uint32_t range;
    uint32_t uid;
    uint32_t gid;
    uint64_t capabilities;
    struct executor_limits limits;
    char home[EXECUTOR_PATH_MAX];

    struct cgroup *cgroup;
    /* cpu_share.c */
    bool is_computing;
    uint64_t cpu_looked_ns;
    uint64_t cpu_used_us;
    uint64_t cpu_rate;
    int64_t cpu_credit_us;
    struct storage *storage;
    struct network_link *link;
    struct run *runs;
    uint32_t run_count;
    uint32_t terminals_due; /* runs whose pty master init has still to send */

    struct asker created;
    struct asker *destroyers; /* allocated */
    struct asker *committer;  /* allocated */
    struct executor_digest commit_image;
    uint32_t gone_reason;
    char gone_text[256];
    uint64_t times_ns[TIMES];
};

enum {
    TABLE_SIZE = 4096,
    SERIALS = 65536,
    DESCRIPTORS_RESERVED = 512,
    DESCRIPTORS_MIN = 1024,
    DESCRIPTORS_MAX = 1 << 20, /* the kernel's table for more would be 8 MiB */
};

struct executor {
    const struct config *config;
    int poll_fd;
    int lock_fd;
    int reaper_fd; /* a byte wakes the reaper */
    unsigned descriptors_max;
    bool is_stopping;
    struct source listener;
    struct source signals;
    struct connection *connections;
    struct copy_job *copies;
    struct launcher launchers[2]; /* workspace, build */
    struct cgroup_host *cgroups;
    struct ns_pool *namespaces;
    struct storage_host *storages;
    struct network *network;
    struct sandbox *sandboxes[TABLE_SIZE];
    struct run *runs[TABLE_SIZE];
    uint32_t sandbox_count;
    uint32_t starting_count;
    uint32_t unlaunched_count; /* whose pidfd the launcher has still to tell */
    uint64_t next_run;
    struct run *dying_first; /* runs whose trees are being killed, the next to be looked at first */
    struct source *to_free;
    /* cpu_share.c */
    uint64_t cpu_next_look_ns;
    uint64_t cpu_looked_ns;
    uint64_t cpu_idle_us;
    uint64_t cpu_credit_rate;
    unsigned cpu_looks;
    unsigned computing_count;
    bool pools_are_full;
    uint64_t denials_due_ns;   /* when what was refused is told next */
    uint32_t taken_since_full; /* sandboxes started since the pools were full */
    long keyring;              /* serial of our session keyring; 0: this kernel has none */
    struct self_test_finding layers[SELF_TEST_LAYERS]; /* what the self-test found */
    uint64_t self_test_ns;
    uint8_t received[MESSAGE_BYTES_MAX];
};

/* poll set */
int executor_watch(struct executor *ex, struct source *source, uint32_t events);
void executor_unwatch(struct executor *ex, struct source *source); /* and closes the fd */
void executor_free_later(struct executor *ex, struct source *source);
void executor_free_pending(struct executor *ex);
/* Waits at most timeout_ms for events and handles them. True when there were none. */
bool executor_handle_events(struct executor *ex, int timeout_ms);
void executor_wake_reaper(struct executor *ex);
/* Before anything is made for a client. RESOURCE_EXHAUSTED when the rest is our own reserve. */
int executor_check_descriptors(const struct executor *ex, struct error *err);

/* dispatch.c: connections and answers. Answers to a closed connection vanish; fd (or -1) is
 * borrowed. */
void connection_accept(struct executor *ex, struct source *source, uint32_t events);
/* Takes the fd; NULL when there is no memory. */
struct connection *connection_open(struct executor *ex, int *fd, enum message_state state);
void connection_close(struct executor *ex, struct connection *c);
void reply_ok(struct asker *to, const struct buf *fields, int fd);
void reply_error(struct asker *to, const struct error *err);
void event_broadcast(struct executor *ex, uint16_t type, const struct buf *body);

/* launch.c */
void launcher_find(const struct config *config, char *ret, size_t size); /* its path */
int launcher_start(struct executor *ex, struct launcher *launcher, bool is_build,
                   const char *resolvers, struct error *err);
int launcher_send(struct sandbox *s, const struct sandbox_spec *spec, int control, int userns,
                  int netns, int storage, int root, struct error *err);

/* holder.c. The pool keeps what it was given; a holder that was taken is the taker's. */
bool holder_pool_fill(struct launcher *l, unsigned want); /* true: one is on its way */
bool holder_pool_take(struct launcher *l, struct holder *ret);
void holder_pool_give_back(struct launcher *l, struct holder *h);
/* The launcher's answer about a fork; false when it is not about a holder. Without a pidfd (-1) the
 * fork failed. */
bool holder_pool_answer(struct launcher *l, uint32_t serial, int *pidfd);
void holder_pool_close(struct launcher *l);

/* sandbox.c */
void sandbox_create(struct executor *ex, const struct sandbox_spec *spec, struct asker asker);
void sandbox_create_from_bytes(struct executor *ex, const uint8_t *body, size_t size,
                               struct asker asker); /* dispatch.c */
struct sandbox *sandbox_find(struct executor *ex, const struct executor_uuid *id);
struct sandbox *sandbox_by_serial(struct executor *ex, const struct launcher *l, uint32_t serial);
void sandbox_launched(struct sandbox *s, pid_t pid, int pidfd, int error_number);
void sandbox_end(struct sandbox *s, enum executor_gone_reason reason, const char *text);
/* Whether init may send descriptors now: it is refused by the kernel where it can be (6.16). */
void sandbox_accept_descriptors(struct sandbox *s, bool on);
void sandbox_expire_starting(struct executor *ex);
void sandbox_forget_connection(struct executor *ex, const struct connection *c);

/* denials.c */
/* Tells what the sandbox's network rules refused and nobody was told of yet. */
void denials_tell(struct sandbox *s);
/* The same of all, when it is time to. Milliseconds until it wants to be called again, or -1. */
int denials_tell_when_due(struct executor *ex);

/* cpu_share.c: who computes all the time gives way. Looks when it is time; milliseconds until the
 * next, or -1. */
int cpu_share_when_due(struct executor *ex);
void cpu_share_expect(struct sandbox *s); /* a program starts in it: it is looked at soon */
void cpu_share_hurry(struct sandbox *s);  /* something in it is to end: it comes to the front */

/* copy.c: copies that take long, where the storages' file system cannot share blocks. */
void copy_snapshot(struct executor *ex, const struct storage_id *from, const struct storage_id *to,
                   struct asker asker);
/* True when the request waits for a copy now, or was answered. */
bool copy_before_create(struct executor *ex, const struct sandbox_spec *spec, struct bytes body,
                        struct asker asker);
void copy_forget_connection(struct executor *ex, const struct connection *c);
void copy_end_all(struct executor *ex);

/* run.c */
void run_start(struct sandbox *s, const struct run_spec *spec, struct channel_fds *fds,
               struct asker asker);
struct run *run_find(struct executor *ex, uint64_t id);
void run_kill(struct run *run, uint32_t reason, struct asker asker);
int run_signal(struct run *run, int signal_number, bool whole_group, struct error *err);
int run_resize(struct run *run, uint16_t columns, uint16_t rows, struct error *err);
void run_started(struct run *run, int master);
void run_exited(struct run *run, uint32_t stage, int error_number, int wait_status);
void run_lost(struct run *run); /* with its sandbox */
/* Goes on with trees that take long to die. Milliseconds until it wants to be called again, or -1.
 */
int runs_keep_killing(struct executor *ex);

/* oom_victim.c: whether the main process that got SIGKILL, or is about to get ours, was killed for
 * memory, after so many such kills in its run. Looked at every now and then before; true: again
 * soon. */
bool run_look_at_ooms(struct run *run);
bool run_is_oom_victim(const struct run *run, uint64_t oom_kills);

#endif
