#ifndef EXECUTOR_CLIENT_H
#define EXECUTOR_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/status.h"
#include "policy/base/str.h"

/* Typed, asynchronous client of the executor, for one thread and any event loop: poll
 * executor_client_fd() for executor_client_poll_events() and call executor_client_dispatch().
 *
 * Each request takes a callback that is called exactly once, from executor_client_dispatch() or
 * executor_client_close(), unless the request function itself returned an error. Callbacks may send
 * further requests but must not close the client. Replies come in any order. */
struct executor_client;

enum {
    EXECUTOR_PROTOCOL_VERSION = 4,
    EXECUTOR_ARGS_BYTES_MAX = 2 * 1024 * 1024 - 8192, /* argv and env of a run, together */
    EXECUTOR_ARGS_COUNT_MAX = 8192,                   /* argv and env entries, each */
    EXECUTOR_PATH_MAX = 1024,
    EXECUTOR_HOSTNAME_MAX = 63,
    EXECUTOR_NETWORK_RULES_MAX = 128,
    EXECUTOR_NETWORK_ITEMS_MAX = 64,    /* CIDRs, and ports, per rule */
    EXECUTOR_DENIALS_MAX = 64,          /* destinations in one event */
    EXECUTOR_CALLS_PENDING_MAX = 16384, /* unanswered requests; over it RESOURCE_EXHAUSTED */
};

struct executor_uuid {
    uint8_t bytes[16]; /* all zero means none */
};

struct executor_digest {
    uint8_t bytes[32]; /* sha256 */
};

/* What the host gives and what the executor's config allows at most. */
enum executor_cgroup_mode { EXECUTOR_CGROUP_V1 = 1, EXECUTOR_CGROUP_V2 = 2 };
enum executor_quota_backend {
    EXECUTOR_QUOTA_PROJECT = 1,      /* ext4 or xfs project quota */
    EXECUTOR_QUOTA_BTRFS_SIMPLE = 2, /* btrfs simple quota, in a loop pool when need be */
    EXECUTOR_QUOTA_IMAGE = 3,        /* an ext4 image per storage */
};

struct executor_limits {
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    /* Files, directories and what else has an inode. 0 = derived from disk_bytes. Only project
     * quota counts them exactly: with another EXECUTOR_QUOTA_ a number is FAILED_PRECONDITION. */
    uint64_t inodes;
    uint64_t shm_bytes; /* /dev/shm and /run together, part of the memory; 0 = half of it */
    uint32_t cpu_millicores;
    uint32_t pids;
};

struct executor_host_report {
    uint32_t version;
    enum executor_cgroup_mode cgroup_mode;
    enum executor_quota_backend quota_backend;
    struct executor_limits ceiling; /* a request over it is INVALID_ARGUMENT, naming the limit */
    uint64_t capability_ceiling;
    uint32_t sandboxes_max;
    bool has_network; /* false: only EXECUTOR_NETWORK_NONE is possible */
    char release[32]; /* the executor's own version */
    /* Its configuration file as it was read at its start; lives as long as the client. */
    struct str config_text;
};

enum executor_profile {
    EXECUTOR_PROFILE_WORKSPACE = 1,
    EXECUTOR_PROFILE_BUILD = 2, /* host's build_root read-only; owns its mount namespace */
};

enum executor_network_mode {
    EXECUTOR_NETWORK_NONE = 0,  /* loopback only */
    EXECUTOR_NETWORK_RULES = 1, /* rules below, then the default */
    EXECUTOR_NETWORK_BUILD = 2, /* the allow list of the executor's config; BUILD profile only */
};

struct executor_cidr {
    uint8_t family;        /* 4 or 6 */
    uint8_t prefix_length; /* at most 32 or 128 */
    uint8_t address[16];   /* network order; the first 4 bytes for IPv4 */
};

struct executor_network_rule {
    bool allow;
    const struct executor_cidr *cidrs; /* 1 to EXECUTOR_NETWORK_ITEMS_MAX */
    size_t cidr_count;
    const uint16_t *ports; /* none = all; TCP and UDP */
    size_t port_count;
};

struct executor_network {
    enum executor_network_mode mode;
    bool default_allow_public; /* false = DENY */
    const struct executor_network_rule *rules;
    size_t rule_count;
};

/* Order of decision: protected ranges, DENY rules, ALLOW rules, default. */
struct executor_sandbox_spec {
    struct executor_uuid id;
    enum executor_profile profile;
    struct executor_digest image;      /* ignored for BUILD */
    struct executor_uuid storage;      /* made when absent */
    struct executor_uuid storage_from; /* a snapshot to begin from when `storage` is absent */
    bool storage_is_ephemeral;         /* removed when the sandbox ends, however it ends */
    struct executor_limits limits;     /* all but inodes must be set */
    bool root_read_only;
    uint32_t uid; /* of the workspace user, inside; 1 to 65533 */
    uint32_t gid;
    const char *home;     /* absolute, inside */
    const char *hostname; /* empty = "cordium" */
    /* Bit n keeps capability n for uid 0 of the sandbox's own user namespace, as far as the
     * ceiling allows. It never gives power over the sandbox's mounts, network or pids. */
    uint64_t capabilities;
    struct executor_network network;
    bool want_proxy_socket; /* /var/run/octelium-proxy.sock, owner uid, mode 0600 */
};

struct executor_created {
    uint32_t uid_base;     /* host id of the sandbox's uid 0 */
    bool storage_was_made; /* false: it existed, with its files */
    int proxy_fd;          /* the listening socket, or -1; the callback takes it or closes it */
};

enum {
    EXECUTOR_RUN_TTY = 1,               /* no fds; the reply brings the pty master */
    EXECUTOR_RUN_KILL_TREE_ON_EXIT = 2, /* whatever outlives the main process is killed */
};

struct executor_run_spec {
    struct executor_uuid sandbox;
    const char *const *argv; /* argv[0] is searched in PATH of env when it has no slash */
    size_t argc;
    const char *const *env; /* NAME=value */
    size_t env_count;
    const char *cwd; /* absolute; empty = home of the sandbox */
    uint32_t uid;    /* inside: 0 or the workspace user's, or any other below 65534 */
    uint32_t gid;
    uint32_t flags;
    uint16_t columns; /* with EXECUTOR_RUN_TTY */
    uint16_t rows;
    uint64_t memory_bytes; /* 0 = only the sandbox's limit */
    uint32_t pids;         /* 0 = only the sandbox's limit */
    int fds[3]; /* stdin, stdout, stderr; borrowed: duplicates are sent. -1 with a terminal */
};

struct executor_run_started {
    uint64_t run;
    int pty_fd; /* master, non-blocking, or -1; the callback takes it or closes it */
};

/* Where a run stopped before its program ran. */
enum executor_run_stage {
    EXECUTOR_STAGE_RAN = 0,  /* the program ran: wait_status is its own */
    EXECUTOR_STAGE_FORK = 1, /* no process: pids limit or memory */
    EXECUTOR_STAGE_TERMINAL = 2,
    EXECUTOR_STAGE_IDENTITY = 3,
    EXECUTOR_STAGE_CWD = 4,  /* chdir failed: exit code 126 */
    EXECUTOR_STAGE_EXEC = 5, /* ENOENT: 127, other errno: 126 */
    EXECUTOR_STAGE_LOST = 6, /* the sandbox's init went away first */
};

enum executor_kill_reason {
    EXECUTOR_KILL_NONE = 0,
    EXECUTOR_KILL_ASKED = 1, /* by a person */
    EXECUTOR_KILL_DEADLINE = 2,
    EXECUTOR_KILL_OUTPUT_LIMIT = 3,
    EXECUTOR_KILL_CANCELLED = 4, /* the client went away */
    EXECUTOR_KILL_SANDBOX_END = 5,
    EXECUTOR_KILL_CPU_LIMIT = 6,
};

struct executor_run_exit {
    uint64_t run;
    struct executor_uuid sandbox;
    enum executor_run_stage stage;
    int error_number;                      /* with a stage other than RAN */
    int wait_status;                       /* as waitpid(2) tells it; 0 unless stage is RAN */
    bool killed_by_us;                     /* kill_reason was in force before the process ended */
    enum executor_kill_reason kill_reason; /* first reason asked for, in force or not */
    uint32_t oom_kills;                    /* in the run's own cgroup */
    uint32_t sandbox_oom_kills;            /* in the whole sandbox, meanwhile */
    uint32_t pids_denied;                  /* forks refused by a pids limit, in the run or above */
    bool main_was_oom_killed;              /* oom kill counted and main process died of SIGKILL */
    uint64_t cpu_user_us;
    uint64_t cpu_system_us;
    uint64_t wall_ns;
    /* What the kernel cannot tell has no has_; see struct cgroup_usage in steps/cgroup.h. */
    bool has_memory_peak;
    bool has_pids_peak;
    bool has_io;
    uint64_t memory_peak_bytes;
    uint32_t pids_peak; /* processes and threads at a time */
    /* Of the storages' block device, until the run ended. Data in the page cache is not written
     * yet; on cgroup v1 only what a process waited for counts as written. */
    uint64_t io_read_bytes;
    uint64_t io_write_bytes;
    uint64_t io_reads;
    uint64_t io_writes;
};

struct executor_stats {
    uint64_t memory_bytes;
    uint64_t memory_peak_bytes; /* 0 when the kernel cannot tell */
    uint64_t cpu_user_us;
    uint64_t cpu_system_us;
    uint64_t disk_bytes;
    uint64_t disk_limit_bytes;
    uint64_t disk_inodes; /* with a limit of 0 they are not counted */
    uint64_t disk_limit_inodes;
    uint64_t oom_kills;
    uint64_t pids_denied;
    uint32_t pids;
    uint32_t runs;
};

enum executor_gone_reason {
    EXECUTOR_GONE_DESTROYED = 1,
    EXECUTOR_GONE_INIT_DIED = 2,
    EXECUTOR_GONE_OOM = 3, /* init itself was killed for memory */
    EXECUTOR_GONE_PROTOCOL = 4,
    EXECUTOR_GONE_COMMITTED = 5,
    EXECUTOR_GONE_EXECUTOR_STOPPED = 6,
};

struct executor_sandbox_gone {
    struct executor_uuid id;
    enum executor_gone_reason reason;
    const char *text; /* for a log; valid during the callback */
};

/* Why a packet was refused. */
enum executor_denial_reason {
    EXECUTOR_DENIAL_PROTECTED = 1,   /* the host, another sandbox, link-local, loopback */
    EXECUTOR_DENIAL_CONNECTIONS = 2, /* too many connections at once */
    EXECUTOR_DENIAL_RULE = 3,        /* a DENY rule */
    EXECUTOR_DENIAL_NON_PUBLIC = 4,  /* by default_allow_public */
    EXECUTOR_DENIAL_DEFAULT = 5,     /* by the default DENY */
};

struct executor_denial {
    uint32_t address; /* IPv4, host byte order */
    uint16_t port;
    bool is_udp; /* else TCP */
    enum executor_denial_reason reason;
    uint64_t packets; /* of TCP, as a rule, one for each attempt to connect */
};

/* What the network rules refused to a sandbox since the last such event: told every 30 s, on
 * executor_network_denials(), and before the sandbox is gone. A sandbox without a link (mode NONE,
 * or rules that let nothing pass) has nothing to be refused: connects fail inside, ENETUNREACH. */
struct executor_network_denied {
    struct executor_uuid sandbox;
    uint64_t others; /* packets to other destinations than these, or of other protocols */
    size_t count;
    struct executor_denial entries[EXECUTOR_DENIALS_MAX];
};

enum executor_list_kind { EXECUTOR_LIST_SANDBOXES, EXECUTOR_LIST_STORAGES, EXECUTOR_LIST_IMAGES };

/* A page of ids: id_bytes each (16, or 32 for images). Ask again with offset += count until
 * offset + count = total. */
struct executor_list {
    const uint8_t *ids; /* valid during the callback */
    uint32_t id_bytes;
    uint32_t count;
    uint32_t total;
};

struct executor_committed {
    uint64_t size_bytes; /* of the image's files, as far as they are written out already */
};

/* err.status 0 means success, and then the member of the request's kind is set. A lost connection
 * is UNAVAILABLE, and nothing is known about the request's effect. */
struct executor_reply {
    struct error err;
    union {
        struct executor_created created;     /* sandbox_create */
        struct executor_run_started started; /* run_start */
        struct executor_stats stats;         /* sandbox_stats */
        struct executor_list list;           /* list */
        struct executor_committed committed; /* image_commit */
        bool exists;                         /* image_exists */
    };
};

struct executor_callback {
    void (*done)(void *context, const struct executor_reply *reply);
    void *context;
};

struct executor_client_events {
    void (*run_exited)(void *context, const struct executor_run_exit *event);
    void (*sandbox_gone)(void *context, const struct executor_sandbox_gone *event);
    void (*network_denied)(void *context, const struct executor_network_denied *event);
    /* Once; pending callbacks have been called with UNAVAILABLE. Close the client afterwards, not
     * from within. Sandboxes of a lost connection live on until the next HELLO's owner asks LIST.
     */
    void (*disconnected)(void *context, const struct error *why);
    void *context;
};

/* Connects and says HELLO; waits at most timeout_ms (the executor answers in well under one
 * millisecond). UNAVAILABLE: nobody listens there; PERMISSION_DENIED: the peer is not root or we
 * are not the executor's gateway_uid; FAILED_PRECONDITION: another protocol version. */
int executor_client_connect(const char *path, int timeout_ms,
                            const struct executor_client_events *events,
                            struct executor_client **ret, struct error *err);
/* For an executor's own use: over one end of a socket pair whose other end has said HELLO already.
 * Takes the fd when it succeeds. RESOURCE_EXHAUSTED. */
int executor_client_adopt(int *fd, const struct executor_client_events *events,
                          struct executor_client **ret, struct error *err);
void executor_client_close(struct executor_client *client); /* NULL is fine */
const struct executor_host_report *executor_client_host(const struct executor_client *client);
int executor_client_fd(const struct executor_client *client);
short executor_client_poll_events(const struct executor_client *client); /* POLLIN, POLLOUT */
/* Reads and writes what is possible without blocking, and calls callbacks. Returns 0, or
 * -STATUS_UNAVAILABLE after `disconnected` was called. */
int executor_client_dispatch(struct executor_client *client);

/* Requests. Return 0 when sent or queued, INVALID_ARGUMENT for a spec that cannot be encoded,
 * RESOURCE_EXHAUSTED, UNAVAILABLE after a disconnect. Everything given is copied. */
int executor_sandbox_create(struct executor_client *client,
                            const struct executor_sandbox_spec *spec, struct executor_callback cb,
                            struct error *err);
int executor_sandbox_destroy(struct executor_client *client, const struct executor_uuid *id,
                             bool delete_storage, struct executor_callback cb, struct error *err);
int executor_sandbox_stats(struct executor_client *client, const struct executor_uuid *id,
                           struct executor_callback cb, struct error *err);
/* The answer says that `network_denied` was called with what there was. */
int executor_network_denials(struct executor_client *client, const struct executor_uuid *id,
                             struct executor_callback cb, struct error *err);
int executor_run_start(struct executor_client *client, const struct executor_run_spec *spec,
                       struct executor_callback cb, struct error *err);
int executor_run_kill(struct executor_client *client, uint64_t run,
                      enum executor_kill_reason reason, struct executor_callback cb,
                      struct error *err);
int executor_run_signal(struct executor_client *client, uint64_t run, int signal_number,
                        bool whole_group, struct executor_callback cb, struct error *err);
int executor_run_resize(struct executor_client *client, uint64_t run, uint16_t columns,
                        uint16_t rows, struct executor_callback cb, struct error *err);
int executor_storage_delete(struct executor_client *client, const struct executor_uuid *storage,
                            struct executor_callback cb, struct error *err);
int executor_storage_snapshot(struct executor_client *client, const struct executor_uuid *from,
                              const struct executor_uuid *to, struct executor_callback cb,
                              struct error *err);
int executor_image_commit(struct executor_client *client, const struct executor_uuid *sandbox,
                          const struct executor_digest *image, struct executor_callback cb,
                          struct error *err);
int executor_image_delete(struct executor_client *client, const struct executor_digest *image,
                          struct executor_callback cb, struct error *err);
int executor_image_exists(struct executor_client *client, const struct executor_digest *image,
                          struct executor_callback cb, struct error *err);
int executor_list(struct executor_client *client, enum executor_list_kind kind, uint32_t offset,
                  struct executor_callback cb, struct error *err);

#endif
