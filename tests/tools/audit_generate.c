/* Makes a log as a gateway would have written it: lines in finished, compressed files with their
 * chain and signed checkpoints, the newest ones in the active file.
 *
 *     audit_generate FOLDER LINES [SEED]
 *
 * The folder must not be there; FOLDER.pub is the public key. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/audit/audit_group.h"
#include "gateway/audit/wall_time.h"
#include "gateway/auditfile/segment_writer.h"

enum {
    FILE_BYTES = 64 << 20,
    GROUP_BYTES = 1 << 20,
    CHECKPOINT_LINES = 1000,
    USERS = 500,
    WORKSPACES = 20000,
    SESSIONS = 5000,
    TEMPLATES = 60,
    SPACES = 40,
    STEP_NS = 50 * 1000000, /* between two lines, on the average */
    RECORD_BYTES = 8192,
};

struct generator {
    int dir_fd;
    struct signing_key *key;
    struct hasher *hasher;
    struct audit_group group;
    struct segment_writer *writer;
    uint64_t file_first; /* sequence */
    uint64_t file_bytes;
    int64_t now_ns;
    uint64_t random;
};

static uint64_t next(struct generator *g)
{
    g->random ^= g->random << 13;
    g->random ^= g->random >> 7;
    g->random ^= g->random << 17;
    return g->random;
}

/* Small numbers are frequent, as people's are. */
static unsigned skewed(struct generator *g, unsigned n)
{
    double x = (double)(next(g) >> 11) / (double)(1ULL << 53);
    return (unsigned)(x * x * x * n);
}

struct request {
    char id[33];
    unsigned user, session, workspace, template_, space, method;
    bool is_allowed;
    bool in_workspace;
    int64_t began_ns;
};

static const struct {
    const char *package, *service, *name;
    bool has_end;
} methods[] = {
    {"octelium.api.main.cordium.v1", "WorkspaceService", "Exec", true},
    {"octelium.api.main.cordium.v1", "MainService", "CreateWorkspace", true},
    {"octelium.api.main.cordium.v1", "MainService", "GetWorkspace", false},
    {"octelium.api.main.cordium.v1", "MainService", "StartWorkspace", true},
    {"octelium.api.main.cordium.v1", "MainService", "StopWorkspace", true},
    {"octelium.api.main.cordium.v1", "MainService", "ListWorkspace", false},
    {"cordium.ext.v1", "RunService", "Run", true},
    {"octelium.api.main.core.v1", "MainService", "GetUser", false},
    {"octelium.api.main.core.v1", "MainService", "UpdatePolicy", true},
};
enum { METHODS = sizeof methods / sizeof methods[0] };

static void add_ref(struct buf *b, const char *key, const char *version, const char *kind,
                    const char *prefix, unsigned n)
{
    buf_printf(b,
               "\"%s\":{\"apiVersion\":\"%s\",\"kind\":\"%s\",\"uid\":\"%08x-7111-4222-8333-"
               "%012x\",\"name\":\"%s-%u\",\"resourceVersion\":\"01a22a98-acea-715e-95d3-"
               "%012x\"}",
               key, version, kind, n * 2654435761U, n, prefix, n, n * 40503U);
}

static void add_common(struct generator *g, const struct request *r, bool is_end, struct buf *b)
{
    static const char *const rules[] = {"never root", "work hours", "#0", "no network",
                                        "allow all"};
    char began[WALL_TIME_TEXT_SIZE];
    char now[WALL_TIME_TEXT_SIZE];
    wall_time_format_ns(r->began_ns, began);
    wall_time_format_ns(g->now_ns, now);
    buf_printf(
        b,
        "{\"apiVersion\":\"core/v1\",\"kind\":\"AccessLog\",\"metadata\":{\"id\":\"%04x-%04x-"
        "%016" PRIx64 "%08x-%04x-%04x\",\"createdAt\":\"%s\",",
        (unsigned)next(g) & 0xffff, (unsigned)next(g) & 0xffff, next(g), (unsigned)next(g),
        (unsigned)next(g) & 0xffff, (unsigned)next(g) & 0xffff, now);
    add_ref(b, "actorRef", "core/v1", "Session", "session", r->session);
    buf_printf(b, "},\"entry\":{\"common\":{\"startedAt\":\"%s\",", began);
    if (is_end) {
        buf_printf(b, "\"endedAt\":\"%s\",", now);
    }
    buf_printf(b,
               "\"status\":\"%s\",\"mode\":\"GRPC\",\"reason\":{\"type\":\"%s\",\"details\":"
               "{\"policyMatch\":{\"policy\":{",
               r->is_allowed ? "ALLOWED" : "DENIED",
               r->is_allowed || r->user % 3 ? "POLICY_MATCH" : "NO_POLICY_MATCH");
    add_ref(b, "policyRef", "core/v1", "Policy", r->is_allowed ? "allow" : "deny", r->user % 12);
    buf_printf(b, "},\"ruleName\":\"%s\"}}},", rules[r->is_allowed ? 4 : r->method % 4]);
    add_ref(b, "sessionRef", "core/v1", "Session", "session", r->session);
    buf_add_u8(b, ',');
    add_ref(b, "userRef", "core/v1", "User", "user", r->user);
    buf_add_cstr(b, ",\"serviceRef\":{\"apiVersion\":\"core/v1\",\"kind\":\"Service\",\"name\":"
                    "\"default.octelium-api\"},\"namespaceRef\":{\"apiVersion\":\"core/v1\","
                    "\"kind\":\"Namespace\",\"name\":\"octelium-api\"},\"regionRef\":{"
                    "\"apiVersion\":\"core/v1\",\"kind\":\"Region\",\"name\":\"default\"},"
                    "\"isPublic\":true},");
    buf_printf(b,
               "\"info\":{\"grpc\":{\"service\":\"%s\",\"serviceFullName\":\"%s.%s\",\"package\":"
               "\"%s\",\"method\":\"%s\",\"path\":\"/%s.%s/%s\"}}},\"cordium\":{",
               methods[r->method].service, methods[r->method].package, methods[r->method].service,
               methods[r->method].package, methods[r->method].name, methods[r->method].package,
               methods[r->method].service, methods[r->method].name);
}

static void add_end(struct generator *g, struct buf *b)
{
    static const char *const outcomes[] = {"exited", "timed_out", "oom_killed", "signaled"};
    unsigned n = skewed(g, 400);
    buf_printf(
        b,
        "\"event\":\"END\",\"end\":\"FINISHED\",\"code\":\"%s\",\"durationMilliseconds\":%u."
        "%03u,\"bytesOut\":%u,\"outcome\":{\"outcome\":\"%s\",\"exitCode\":%u,\"oomKills\":0,"
        "\"pidsDenied\":0,\"usage\":{\"cpuUserUs\":%u,\"cpuSystemUs\":%u,\"wallUs\":%u,"
        "\"memoryPeakBytes\":%u,\"pidsPeak\":3,\"ioReadBytes\":0,\"ioWriteBytes\":0,"
        "\"ioReads\":0,\"ioWrites\":0}},",
        n % 50 == 49 ? "UNAVAILABLE" : "OK", n, n, n * 100, outcomes[n / 100], n % 2,
        (unsigned)next(g) % 90000, n, (unsigned)next(g) % 1000000, (unsigned)next(g) % 100000000);
}

static void add_rest(struct generator *g, const struct request *r, bool is_end, struct buf *b)
{
    if (is_end) {
        add_end(g, b);
    } else {
        buf_printf(b,
                   "\"event\":\"DECISION\",\"policySetVersion\":%u,\"attachedTo\":\"User "
                   "user-%u\",",
                   r->user % 40, r->user);
    }
    buf_printf(b,
               "\"requestID\":\"%s\",\"inWorkspace\":%s,\"peer\":\"192.0.2.%u:%u\",\"protocol\":"
               "\"grpc\",\"userAgent\":\"grpc-python-grpclib/0.4.9 (linux; cpython/3.11.2)\",",
               r->id, r->in_workspace ? "true" : "false", r->user % 250,
               (unsigned)next(g) % 30000 + 30000);
    add_ref(b, "credentialRef", "core/v1", "Credential", "credential", r->session);
    buf_add_u8(b, ',');
    add_ref(b, "spaceRef", "cordium/v1", "Space", "space", r->space);
    buf_add_u8(b, ',');
    add_ref(b, "templateRef", "cordium/v1", "Template", "template", r->template_);
    buf_add_u8(b, ',');
    add_ref(b, "workspaceRef", "cordium/v1", "Workspace", "workspace", r->workspace);
    buf_add_cstr(b, ",\"limits\":{\"cpuMillicores\":2000,\"memoryMegabytes\":6000,"
                    "\"storageMegabytes\":20000}}}");
}

static void begin_request(struct generator *g, struct request *r)
{
    *r = (struct request){
        .user = skewed(g, USERS),
        .workspace = skewed(g, WORKSPACES),
        .space = skewed(g, SPACES),
        .template_ = skewed(g, TEMPLATES),
        .method = skewed(g, METHODS),
        .is_allowed = next(g) % 20 != 0,
        .in_workspace = next(g) % 50 == 0,
        .began_ns = g->now_ns,
    };
    r->session = (r->user * 10 + skewed(g, 10)) % SESSIONS;
    (void)snprintf(r->id, sizeof r->id, "%016" PRIx64 "%016" PRIx64, next(g), next(g));
}

static int write_group(struct generator *g, struct error *err)
{
    struct segment segment = {.is_compressed = true};
    int rc = 0;
    if (!g->writer) {
        segment_format_name(g->file_first, true, segment.name);
        rc = segment_writer_open(g->dir_fd, &segment, &g->writer, err);
    }
    rc = rc ? rc : segment_writer_add(g->writer, buf_str(&g->group.lines), err);
    g->file_bytes += g->group.lines.len;
    struct audit_position end = g->group.end;
    audit_group_clear(&g->group, &end);
    return rc;
}

static int finish_file(struct generator *g, struct error *err)
{
    int rc = audit_group_add_checkpoint(&g->group, g->key, g->hasher, g->now_ns, "ROTATION", err);
    rc = rc ? rc : write_group(g, err);
    rc = rc ? rc : segment_writer_finish(g->writer, g->now_ns / 1000000000, err);
    rc = rc ? rc : segment_writer_commit(g->writer, err);
    segment_writer_free(g->writer);
    g->writer = NULL;
    g->file_bytes = 0;
    g->file_first = g->group.end.chain.sequence + 1;
    return rc;
}

static int add_record(struct generator *g, const struct request *r, bool is_end, struct error *err)
{
    struct buf record;
    buf_init(&record, RECORD_BYTES);
    add_common(g, r, is_end, &record);
    add_rest(g, r, is_end, &record);
    int rc = !record.failed && audit_group_add_line(&g->group, buf_str(&record), g->hasher)
                 ? 0
                 : error_set(err, STATUS_INTERNAL, "a record does not fit");
    buf_free(&record);
    uint64_t sequence = g->group.end.chain.sequence;
    if (rc == 0 && sequence % CHECKPOINT_LINES == 0) {
        rc = audit_group_add_checkpoint(&g->group, g->key, g->hasher, g->now_ns, "LINES", err);
    }
    g->now_ns += (int64_t)(next(g) % (2 * STEP_NS));
    return rc;
}

static int write_active(struct generator *g, struct error *err)
{
    int rc = audit_group_add_checkpoint(&g->group, g->key, g->hasher, g->now_ns, "STOP", err);
    AUTO_FD int fd =
        openat(g->dir_fd, SEGMENT_ACTIVE_NAME, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (rc == 0 && (fd == -1 || fd_write_all(fd, g->group.lines.ptr, g->group.lines.len))) {
        rc = error_set_errno(err, STATUS_UNAVAILABLE, errno, "write " SEGMENT_ACTIVE_NAME);
    }
    return rc;
}

static int generate(struct generator *g, uint64_t lines, struct error *err)
{
    int rc = 0;
    uint64_t in_active = lines < 2000 ? lines / 2 : 1000;
    while (rc == 0 && g->group.end.chain.sequence < lines - in_active) {
        struct request r;
        begin_request(g, &r);
        rc = add_record(g, &r, false, err);
        rc = rc == 0 && r.is_allowed && methods[r.method].has_end ? add_record(g, &r, true, err)
                                                                  : rc;
        rc = rc == 0 && g->group.lines.len >= GROUP_BYTES ? write_group(g, err) : rc;
        rc = rc == 0 && g->file_bytes >= FILE_BYTES ? finish_file(g, err) : rc;
    }
    rc = rc == 0 && (g->writer || g->group.lines.len > 0) ? finish_file(g, err) : rc;
    while (rc == 0 && g->group.end.chain.sequence + 1 < lines) {
        struct request r;
        begin_request(g, &r);
        rc = add_record(g, &r, false, err);
    }
    return rc ? rc : write_active(g, err);
}

static int open_all(struct generator *g, const char *dir, struct error *err)
{
    char key[4096];
    char public_key[4096];
    (void)snprintf(key, sizeof key, "%s.key", dir);
    (void)snprintf(public_key, sizeof public_key, "%s.pub", dir);
    if (mkdir(dir, 0700) == -1) {
        return error_set_errno(err, STATUS_ALREADY_EXISTS, errno, "make '%s'", dir);
    }
    g->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g->hasher = hasher_new();
    audit_group_init(&g->group);
    g->file_first = 1;
    int rc = signing_key_make(key, public_key, err);
    return rc ? rc : signing_key_load(key, &g->key, err);
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct generator g = {.now_ns = 1790000000LL * 1000000000, .random = 88172645463325252ULL};
    uint64_t lines = argc >= 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (lines < 2) {
        fprintf(stderr, "Usage: audit_generate FOLDER LINES [SEED]\n");
        return 64;
    }
    g.random ^= argc >= 4 ? strtoull(argv[3], NULL, 10) * 0x9e3779b97f4a7c15ULL : 0;
    int rc = open_all(&g, argv[1], &err);
    rc = rc ? rc : generate(&g, lines, &err);
    if (rc) {
        fprintf(stderr, "audit_generate: %s\n", err.text);
        return EXIT_FAILURE;
    }
    printf("%" PRIu64 " lines\n", g.group.end.chain.sequence);
    hasher_free(g.hasher);
    signing_key_free(g.key);
    audit_group_free(&g.group);
    return EXIT_SUCCESS;
}
