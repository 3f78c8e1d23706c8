/* Our side of the policy benchmark: `cordium_side RULES CTX`.
 *
 * Reads "RULE MODE COUNT" lines, answers "RESULT WALL_NS CPU_NS ALLOCATIONS" (for the whole count).
 * MODE bare: ctx is ready. MODE ctx: each evaluation makes its ctx from the decoded messages of the
 * request, as the gateway does. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "api/cordium.pb-c.h"
#include "api/core.pb-c.h"
#include "gateway/authorize/activation.h"
#include "gateway/edge/call_internal.h"
#include "gateway/edge/connection.h"
#include "gateway/request.h"
#include "gateway/rpc/codec.h"
#include "policy/policy.h"
#include "tests/bench/policy/allocations.h"

enum { RULES_MAX = 16, LENT_BYTES = 16384, FILE_BYTES_MAX = 1 << 20, EVAL_BYTES_MAX = 16 << 20 };

struct side {
    struct arena arena;
    struct connection connection;
    struct call call;
    struct header headers[4];
    struct method method;
    struct request request;
    struct policy_value ctx;
    const struct policy_program *programs[RULES_MAX];
    size_t rule_count;
};

static void stop(const char *what, const char *why)
{
    (void)fprintf(stderr, "cordium_side: %s: %s\n", what, why);
    exit(1);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;
    (void)clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static struct policy_value read_json(struct side *s, const char *path)
{
    struct policy_value v;
    struct error err;
    char *text = arena_alloc(&s->arena, FILE_BYTES_MAX);
    FILE *f = fopen(path, "rbe");
    if (!f || !text) {
        stop(path, "cannot be read");
    }
    size_t len = fread(text, 1, FILE_BYTES_MAX, f);
    (void)fclose(f);
    if (policy_value_from_json(str_make(text, len), &s->arena, &v, &err)) {
        stop(path, err.text);
    }
    return v;
}

/* The members of ctx as the messages that a request of the gateway holds. */
static const char *const user_json =
    "{\"kind\": \"User\", \"metadata\": {\"name\": \"course-backend\","
    " \"uid\": \"6f1c2b1e-6c0e-4a0b-9d0c-0d8a6f3f5d11\", \"createdAt\": \"2026-03-02T09:14:07Z\"},"
    " \"spec\": {\"type\": \"WORKLOAD\", \"groups\": [\"services\", \"teaching\", "
    "\"ci-runners\"]}}";
static const char *const session_json =
    "{\"kind\": \"Session\", \"metadata\": {\"name\": \"course-backend-x7k2p\","
    " \"uid\": \"0d3c6a52-54a5-4bb5-a4a4-7c8f5a1f0be9\", \"createdAt\": \"2026-11-02T08:00:00Z\"},"
    " \"spec\": {\"state\": \"ACTIVE\"}, \"status\": {\"type\": \"CLIENT\","
    " \"userRef\": {\"name\": \"course-backend\", \"uid\": "
    "\"6f1c2b1e-6c0e-4a0b-9d0c-0d8a6f3f5d11\"},"
    " \"ext\": {\"cordium\": {"
    "  \"workspaceRef\": {\"name\": \"w-7f3k2.sandboxes.cordium\","
    "   \"uid\": \"b1b8d2c4-2a7f-4d0c-8f6e-0f3d8f0f5c21\"},"
    "  \"spaceRef\": {\"name\": \"sandboxes.cordium\","
    "   \"uid\": \"a7a2e4f0-91b3-4f58-8d5f-2f6a5f1f6d90\"},"
    "  \"templateRef\": {\"name\": \"python.sandboxes.cordium\","
    "   \"uid\": \"e3f9d1b7-5e4c-4c1c-9a52-6a1d1c7f8e02\"}}}}}";
static const char *const space_json =
    "{\"kind\": \"Space\", \"metadata\": {\"name\": \"sandboxes.cordium\","
    " \"uid\": \"a7a2e4f0-91b3-4f58-8d5f-2f6a5f1f6d90\"}}";
static const char *const template_json =
    "{\"kind\": \"Template\", \"metadata\": {\"name\": \"python.sandboxes.cordium\","
    " \"uid\": \"e3f9d1b7-5e4c-4c1c-9a52-6a1d1c7f8e02\"}}";
static const char *const body_json =
    "{\"metadata\": {\"displayName\": \"exercise 4\"}, \"spec\": {\"limit\": {"
    "\"memory\": {\"megabytes\": 512}, \"cpu\": {\"millicores\": 1000},"
    " \"storage\": {\"megabytes\": 200}}}}";

static ProtobufCMessage *message(struct side *s, const ProtobufCMessageDescriptor *descriptor,
                                 const char *json)
{
    ProtobufCMessage *m;
    struct error err;
    if (codec_decode_json(descriptor, str_from(json), CODEC_STRICT, &s->arena, &m, &err)) {
        stop(descriptor->name, err.text);
    }
    return m;
}

/* The request of testdata/bench/ctx.json. Nothing listens: the call is a struct filled by hand. */
static void make_request(struct side *s)
{
    struct str path = STR("/octelium.api.main.cordium.v1.MainService/CreateWorkspace");
    s->headers[0] = (struct header){STR("content-type"), STR("application/grpc")};
    s->headers[1] = (struct header){STR("user-agent"), STR("grpc-python/1.71.0")};
    s->headers[2] = (struct header){STR("te"), STR("trailers")};
    s->headers[3] = (struct header){STR("host"), STR("cordium.example.com")};
    (void)snprintf(s->connection.origin.peer, sizeof s->connection.origin.peer, "192.0.2.17:4711");
    s->connection.origin.is_tls = true;
    s->call.connection = &s->connection;
    s->call.protocol = &grpc_protocol;
    s->call.path = path;
    s->call.request_headers.items = s->headers;
    s->call.request_headers.count = 4;
    s->method.schema = schema_method_find(path);
    if (!s->method.schema) {
        stop(path.ptr, "no such method");
    }
    struct request *r = &s->request;
    r->call = &s->call;
    r->method = &s->method;
    r->actor.user = (Core__User *)message(s, &core__user__descriptor, user_json);
    r->actor.session = (Core__Session *)message(s, &core__session__descriptor, session_json);
    r->touched.space = (Cordium__Space *)message(s, &cordium__space__descriptor, space_json);
    r->touched.template_ =
        (Cordium__Template *)message(s, &cordium__template__descriptor, template_json);
    r->message = message(s, s->method.schema->request->descriptor, body_json);
}

static void compile_rules(struct side *s, const struct policy_env *env, struct policy_value rules)
{
    struct error err;
    s->rule_count = policy_list_size(rules.as.list);
    for (size_t i = 0; i < s->rule_count && i < RULES_MAX; i++) {
        struct policy_value rule;
        struct policy_value text;
        if (policy_list_get(rules.as.list, i, &s->arena, &rule) ||
            policy_map_get(rule.as.map, policy_cstring("cel"), &s->arena, &text) != 1) {
            stop("rules", "no member 'cel'");
        }
        if (policy_compile(env, policy_value_str(text), &s->arena, &s->programs[i], &err)) {
            stop("rules", err.text);
        }
    }
}

static struct policy_value run(const struct side *s, size_t rule, bool is_bare, unsigned count)
{
    _Alignas(16) char lent[LENT_BYTES];
    struct arena arena;
    struct error err;
    struct policy_value vars[POLICY_VAR_FIRST_DECLARED] = {[POLICY_VAR_CTX] = s->ctx};
    struct policy_value result = policy_null();
    struct policy_input input = {.vars = vars, .vars_count = POLICY_VAR_FIRST_DECLARED};
    arena_init_with(&arena, lent, sizeof lent, EVAL_BYTES_MAX);
    for (unsigned i = 0; i < count; i++) {
        if (!is_bare && activation_make(&s->request, &arena, &vars[POLICY_VAR_CTX])) {
            stop("ctx", "out of memory");
        }
        if (policy_eval(s->programs[rule], &input, &arena, &result, &err)) {
            stop("evaluation", err.text);
        }
        arena_reset(&arena);
    }
    arena_free(&arena);
    return result;
}

static void serve(const struct side *s)
{
    char line[64];
    printf("ready\n");
    (void)fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        char *rest;
        size_t rule = strtoul(line, &rest, 10);
        bool is_bare = strncmp(rest, " bare ", 6) == 0;
        unsigned count = (unsigned)strtoul(rest + (is_bare ? 6 : 5), NULL, 10);
        if (rule >= s->rule_count) {
            stop(line, "no such rule");
        }
        uint64_t before = allocations_count();
        uint64_t wall = clock_ns(CLOCK_MONOTONIC);
        uint64_t cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        struct policy_value result = run(s, rule, is_bare, count);
        cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        wall = clock_ns(CLOCK_MONOTONIC) - wall;
        printf("%s %lu %lu %lu\n", result.kind == POLICY_BOOL && result.as.truth ? "true" : "false",
               wall, cpu, allocations_count() - before);
        (void)fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    struct side s = {0};
    struct error err;
    if (argc != 3) {
        (void)fprintf(stderr, "usage: cordium_side RULES CTX\n");
        return 2;
    }
    arena_init(&s.arena, 64 << 20);
    struct policy_env *env = policy_env_new(POLICY_LIBRARIES_ALL, &err);
    if (!env) {
        stop("env", err.text);
    }
    compile_rules(&s, env, read_json(&s, argv[1]));
    s.ctx = read_json(&s, argv[2]);
    make_request(&s);
    serve(&s);
    policy_env_free(env);
    arena_free(&s.arena);
    return 0;
}
