/* Many policies: `scale_bench FOLDER CTX`.
 *
 * Writes FOLDER/1000/policy-N.yaml (5 rules each, none of which matches CTX), reads and checks them
 * as the gateway does, and then answers lines on standard input:
 *   "load"                 LOAD_WALL_NS LOAD_CPU_NS      read, decode, compile and link all files
 *   "decide SIZE COUNT"    WALL_NS CPU_NS ALLOCATIONS    decisions with SIZE (10 or 1000) policies
 *   "plain SIZE COUNT"     the same without the index
 *
 * The policies are attached at 10 points, SIZE / 10 each. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "api/core.pb-c.h"
#include "gateway/authorize/policy_source_of.h"
#include "gateway/rpc/codec.h"
#include "policy/decide/bundle.h"
#include "policy/decide/decide.h"
#include "tests/bench/policy/allocations.h"

enum {
    POLICIES = 1000,
    POINTS = 10,
    LENT_BYTES = 16384,
    FILE_BYTES_MAX = 1 << 20,
    ARENA_BYTES_MAX = 512 << 20,
};

struct attached {
    struct policy_attachment points[POINTS];
    struct policy_attachment plain[POINTS]; /* the same without bundles */
    struct str names[POLICIES];
};

struct bench {
    const char *folder;
    struct policy_env *env;
    struct policy_set *set;
    struct arena arena;
    struct policy_value ctx;
    struct attached few;
    struct attached many;
};

static void stop(const char *what, const char *why)
{
    (void)fprintf(stderr, "scale_bench: %s: %s\n", what, why);
    exit(1);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    (void)clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static const char *file_name(struct arena *arena, const char *folder, unsigned i)
{
    return arena_printf(arena, "%s/policy-%u.yaml", folder, i);
}

/* Five rules as admins write them, about teams and spaces that this request is not of. */
static void write_policy(const char *path, unsigned i)
{
    FILE *f = fopen(path, "wbe");
    if (!f) {
        stop(path, "cannot be written");
    }
    (void)fprintf(
        f,
        "kind: Policy\n"
        "metadata:\n"
        "  name: team-%u\n"
        "  description: What team %u may do\n"
        "spec:\n"
        "  attrs:\n"
        "    space: team-%u.cordium\n"
        "  rules:\n"
        "    - name: outsiders\n"
        "      effect: DENY\n"
        "      condition:\n"
        "        all:\n"
        "          of:\n"
        "            - match: ctx.space.metadata.name == attrs.space\n"
        "            - match: '!(\"team-%u\" in ctx.user.spec.groups)'\n"
        "    - name: members\n"
        "      effect: ALLOW\n"
        "      condition:\n"
        "        match: '\"team-%u\" in ctx.user.spec.groups && ctx.request.grpc.service == "
        "\"MainService\"'\n"
        "    - name: from a workspace\n"
        "      effect: DENY\n"
        "      condition:\n"
        "        all:\n"
        "          of:\n"
        "            - match: '\"ext\" in ctx.session.status && \"cordium\" in "
        "ctx.session.status.ext'\n"
        "            - match: ctx.session.status.ext.cordium.spaceRef.name == \"team-%u.cordium\"\n"
        "    - name: large ones\n"
        "      effect: DENY\n"
        "      priority: -1\n"
        "      condition:\n"
        "        match: ctx.template.metadata.name == \"gpu.team-%u.cordium\" && "
        "ctx.request.body.spec.limit.memory.megabytes > %u.0\n"
        "    - name: the robot\n"
        "      effect: ALLOW\n"
        "      condition:\n"
        "        match: ctx.user.metadata.name in [\"robot-%u\", \"robot-%u-spare\", "
        "\"admin-%u\"]\n",
        i, i, i, i, i, i, i, 1024 + i, i, i, i);
    if (fclose(f)) {
        stop(path, "cannot be written");
    }
}

static void write_policies(struct bench *b)
{
    if (mkdir(b->folder, 0755) && errno != EEXIST) {
        stop(b->folder, "cannot be made");
    }
    for (unsigned i = 0; i < POLICIES; i++) {
        write_policy(file_name(&b->arena, b->folder, i), i);
    }
}

static struct str read_file(const char *path, struct arena *arena)
{
    char *text = arena_alloc(arena, FILE_BYTES_MAX);
    FILE *f = fopen(path, "rbe");
    if (!f || !text) {
        stop(path, "cannot be read");
    }
    size_t len = fread(text, 1, FILE_BYTES_MAX, f);
    (void)fclose(f);
    return str_make(text, len);
}

static void add_file(struct policy_set_builder *builder, const char *path, struct arena *scratch)
{
    struct error err;
    ProtobufCMessage *message;
    struct policy_source source;
    struct str text = read_file(path, scratch);
    int rc =
        codec_decode_yaml(&core__policy__descriptor, text, CODEC_STRICT, scratch, &message, &err);
    if (rc) {
        stop(path, err.text);
    }
    const Core__Policy *p = (const Core__Policy *)message;
    rc = policy_source_of(p->metadata->name, p->metadata, p->spec, scratch,
                          policy_set_builder_arena(builder), &source, &err);
    rc = rc ? rc : policy_set_add(builder, &source, &err);
    if (rc) {
        stop(path, err.text);
    }
}

static struct policy_set *load(const struct bench *b)
{
    struct error err;
    struct arena scratch;
    struct policy_set *set;
    struct policy_set_builder *builder = policy_set_builder_new(b->env, POLICY_SET_NAMED, 1);
    if (!builder) {
        stop(b->folder, "out of memory");
    }
    arena_init(&scratch, ARENA_BYTES_MAX);
    for (unsigned i = 0; i < POLICIES; i++) {
        add_file(builder, file_name(&scratch, b->folder, i), &scratch);
        arena_reset(&scratch);
    }
    arena_free(&scratch);
    if (policy_set_finish(builder, &set, &err)) {
        stop(b->folder, err.text);
    }
    return set;
}

static void attach(struct bench *b, struct attached *a, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        a->names[i] = str_from(arena_printf(&b->arena, "team-%zu", i));
    }
    for (size_t i = 0; i < POINTS; i++) {
        size_t each = size / POINTS;
        a->points[i] = (struct policy_attachment){
            .point = str_from(arena_printf(&b->arena, "Group group-%zu", i)),
            .names = &a->names[i * each],
            .name_count = each};
        a->plain[i] = a->points[i];
        a->points[i].bundle = policy_bundle_new(b->set, &a->points[i]);
        if (!a->points[i].bundle) {
            stop("bundle", "out of memory");
        }
    }
}

static void detach(struct attached *a)
{
    for (size_t i = 0; i < POINTS; i++) {
        policy_bundle_unref((struct policy_bundle *)(uintptr_t)a->points[i].bundle);
    }
}

static void decide(const struct bench *b, const struct policy_attachment *points, unsigned count)
{
    _Alignas(16) char lent[LENT_BYTES];
    struct arena arena;
    struct policy_decision d;
    struct policy_query q = {.attachments = points,
                             .attachment_count = POINTS,
                             .ctx = b->ctx,
                             .now_ns = 1800000000LL * 1000000000};
    arena_init_with(&arena, lent, sizeof lent, ARENA_BYTES_MAX);
    for (unsigned i = 0; i < count; i++) {
        policy_decide(b->set, &q, &arena, &d);
        if (d.reason != POLICY_REASON_NO_MATCH) {
            stop("decision", policy_reason_name(d.reason));
        }
        arena_reset(&arena);
    }
    arena_free(&arena);
}

static void answer(struct bench *b, const char *line)
{
    char what[16];
    unsigned size = 0;
    unsigned count = 0;
    struct policy_set *set = NULL;
    int words = sscanf(line, "%15s %u %u", what, &size, &count);
    struct attached *a = size == POLICIES ? &b->many : &b->few;
    uint64_t before = allocations_count();
    uint64_t wall = clock_ns(CLOCK_MONOTONIC);
    uint64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (words == 1 && cstr_eq(what, "load")) {
        set = load(b);
    } else if (words == 3) {
        decide(b, cstr_eq(what, "plain") ? a->plain : a->points, count);
    } else {
        stop(line, "not understood");
    }
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    wall = clock_ns(CLOCK_MONOTONIC) - wall;
    printf("%lu %lu %lu\n", wall, cpu, allocations_count() - before);
    (void)fflush(stdout);
    policy_set_unref(set);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct error err;
    char line[64];
    if (argc != 3) {
        (void)fprintf(stderr, "usage: scale_bench FOLDER CTX\n");
        return 2;
    }
    b.folder = argv[1];
    arena_init(&b.arena, ARENA_BYTES_MAX);
    b.env = policy_env_new(POLICY_LIBRARIES_ALL, &err);
    if (!b.env) {
        stop("env", err.text);
    }
    write_policies(&b);
    b.set = load(&b);
    if (policy_value_from_json(read_file(argv[2], &b.arena), &b.arena, &b.ctx, &err)) {
        stop(argv[2], err.text);
    }
    attach(&b, &b.few, POINTS);
    attach(&b, &b.many, POLICIES);
    printf("ready\n");
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        answer(&b, line);
    }
    detach(&b.few);
    detach(&b.many);
    policy_set_unref(b.set);
    policy_env_free(b.env);
    arena_free(&b.arena);
    return 0;
}
