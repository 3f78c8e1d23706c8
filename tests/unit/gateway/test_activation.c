#include <check.h>
#include <stdlib.h>

#include "gateway/authorize/activation.h"
#include "policy/policy.h"
#include "tests/unit/gateway/actor_fixture.h"

Suite *suite_activation(void);

#define EXEC_PATH "/octelium.api.main.cordium.v1.WorkspaceService/Exec"
#define CREATE_PATH "/octelium.api.main.cordium.v1.MainService/CreateWorkspace"

static struct request *make_request(struct actor_fixture *f, const char *path)
{
    static const char *const env[] = {"API_KEY", "PATH"};
    struct request *r = fixture_request(f, path);
    fixture_header(f, "user-agent", "sdk/1");
    fixture_header(f, "authorization", "Bearer cat_x");
    fixture_header(f, "host", "octelium-api.localhost:8443");
    r->actor.session = (Core__Session *)fixture_message(
        f, &core__session__descriptor,
        "{\"metadata\": {\"name\": \"s1\", \"uid\": \"u\", \"labels\": {\"team\": \"red\"}},"
        " \"spec\": {\"state\": \"ACTIVE\", \"expiresAt\": \"2030-01-01T00:00:00Z\"},"
        " \"status\": {\"type\": \"CLIENT\", \"totalAuthentications\": 3,"
        " \"ext\": {\"cordium\": {\"spaceRef\": {\"name\": \"sandboxes.cordium\"},"
        " \"n\": 3, \"list\": [1, \"x\", null, true]}},"
        " \"authentication\": {\"info\": {\"geoip\": {\"network\": {\"asn\": \"64500\"}}}}}}");
    static Core__Group *groups[1];
    groups[0] = (Core__Group *)fixture_message(
        f, &core__group__descriptor,
        "{\"metadata\": {\"name\": \"dev\"}, \"spec\": {\"attrs\": {\"tier\": 2}}}");
    r->actor.groups = (const Core__Group *const *)groups;
    r->actor.group_count = 1;
    r->touched.space = (Cordium__Space *)fixture_message(
        f, &cordium__space__descriptor, "{\"metadata\": {\"name\": \"sandboxes.cordium\"}}");
    r->touched.workspace = (Cordium__Workspace *)fixture_message(
        f, &cordium__workspace__descriptor,
        "{\"metadata\": {\"name\": \"w1\"}, \"spec\": {\"limit\": {\"memory\": {\"megabytes\":"
        " 512}}}}");
    static struct run_request run;
    run = (struct run_request){.command = STR("python main.py"),
                               .command_sha256 = {0xab, 0xcd},
                               .working_dir = "/workspace",
                               .env_names = env,
                               .env_name_count = 2};
    r->run = &run;
    return r;
}

/* Evaluates over the request; gives the code. */
static int eval(const struct request *r, const char *text, struct policy_value *ret,
                struct arena *arena)
{
    struct error err = {0};
    struct policy_env *env = policy_env_new(POLICY_LIBRARIES_ALL, &err);
    const struct policy_program *program;
    struct policy_value vars[2] = {0};
    int rc = policy_compile(env, str_from(text), arena, &program, &err);
    ck_assert_msg(rc == 0, "%s: %s", text, err.text);
    ck_assert_int_eq(activation_make(r, arena, &vars[POLICY_VAR_CTX]), 0);
    struct policy_input input = {.vars = vars, .vars_count = 2};
    rc = -policy_eval(program, &input, arena, ret, &err);
    policy_env_free(env);
    return rc;
}

static const char *const truths[] = {
    "ctx.user.metadata.name == 'ann'",
    "ctx.user.spec.type == 'WORKLOAD'",
    "'dev' in ctx.user.spec.groups",
    "ctx.groups.exists(g, g.metadata.name == 'dev' && g.spec.attrs.tier == 2)",
    "ctx.session.spec.state == 'ACTIVE'",
    "ctx.session.status.ext.cordium.spaceRef.name == 'sandboxes.cordium'",
    "'ext' in ctx.session.status && 'cordium' in ctx.session.status.ext",
    "ctx.session.status.ext.cordium.n == 3",
    "ctx.session.status.ext.cordium.list == [1, 'x', null, true]",
    "timestamp(ctx.session.spec.expiresAt) == timestamp('2030-01-01T00:00:00Z')",
    "type(ctx.session.spec.expiresAt) == string",
    "ctx.session.metadata.labels['team'] == 'red'",
    "ctx.session.metadata.labels == {'team': 'red'}",
    "ctx.session.status.totalAuthentications == 3",
    "type(ctx.session.status.totalAuthentications) == double",
    "ctx.session.status.authentication.info.geoip.network.asn == '64500'",
    "!has(ctx.session.status.isLocked)",
    "!has(ctx.device)",
    "!('device' in ctx)",
    "!('total_authentications' in ctx.session.status)",
    "ctx.service.metadata.name == 'default.octelium-api'",
    "ctx.namespace.metadata.name == 'octelium-api'",
    "ctx.request.ip == '192.0.2.7'",
    "net.isIPInRange(ctx.request.ip, '192.0.2.0/24')",
    "ctx.request.grpc.method == 'Exec' && ctx.request.grpc.service == 'WorkspaceService'",
    "ctx.request.grpc.serviceFullName == ctx.request.grpc.package + '.WorkspaceService'",
    "ctx.request.http.path == '" EXEC_PATH "' && ctx.request.http.scheme == 'https'",
    "ctx.request.http.headers['user-agent'] == 'sdk/1'",
    "ctx.request.http.host == 'octelium-api.localhost:8443'",
    "!('authorization' in ctx.request.http.headers)",
    "ctx.space.metadata.name == ctx.session.status.ext.cordium.spaceRef.name",
    "ctx.workspace.spec.limit.memory.megabytes == 512",
    "!has(ctx.template)",
    "ctx.run.command.startsWith('python') && ctx.run.size == 14 && ctx.run.size + 1 == 15",
    "ctx.run.sha256.startsWith('abcd00') && ctx.run.sha256.size() == 64",
    "!ctx.run.isRoot && ctx.run.user == 'default' && ctx.run.workingDir == '/workspace'",
    "ctx.run.env == ['API_KEY', 'PATH']",
    "ctx.run.limits.memory.megabytes == 512",
    "ctx.all(k, k in ['user', 'session', 'groups', 'service', 'namespace', 'request', 'space', "
    "'workspace', 'run'])",
    "size(ctx) == 9",
    "ctx.request.http.headers.exists(k, k == 'user-agent')",
};

START_TEST(ctx_has_the_shape_that_policies_expect)
{
    struct actor_fixture f;
    struct arena arena;
    struct policy_value v;
    fixture_open(&f);
    struct request *r = make_request(&f, EXEC_PATH);
    arena_init(&arena, 1 << 20);
    int code = eval(r, truths[_i], &v, &arena);
    ck_assert_msg(code == 0, "%s: %s", truths[_i], policy_error_name(code));
    ck_assert_msg(v.kind == POLICY_BOOL && v.as.truth, "%s", truths[_i]);
    arena_free(&arena);
    fixture_close(&f);
}
END_TEST

static const char *const absences[] = {
    "ctx.device.status.posture.riskLevel == 'HIGH'",
    "ctx.user.status.isLocked == false",
    "ctx.request.http.headers['authorization'] == 'x'",
    "ctx.request.http.headers['x-octelium-auth'] == 'x'",
    "ctx.session.status.total_authentications == 3",
};

START_TEST(what_is_unset_is_missing_input)
{
    struct actor_fixture f;
    struct arena arena;
    struct policy_value v;
    fixture_open(&f);
    struct request *r = make_request(&f, EXEC_PATH);
    arena_init(&arena, 1 << 20);
    int code = eval(r, absences[_i], &v, &arena);
    ck_assert_msg(policy_error_is_missing_input(code), "%s: %s", absences[_i],
                  policy_error_name(code));
    arena_free(&arena);
    fixture_close(&f);
}
END_TEST

START_TEST(the_body_is_the_decoded_message)
{
    struct actor_fixture f;
    struct arena arena;
    struct policy_value v;
    fixture_open(&f);
    struct request *r = make_request(&f, CREATE_PATH);
    r->message = fixture_message(
        &f, f.method.schema->request->descriptor,
        "{\"spec\": {\"isEphemeral\": true, \"limit\": {\"memory\": {\"megabytes\": 8192}}}}");
    arena_init(&arena, 1 << 20);
    ck_assert_int_eq(eval(r,
                          "ctx.request.body.spec.isEphemeral && "
                          "ctx.request.body.spec.limit.memory.megabytes > 4096",
                          &v, &arena),
                     0);
    ck_assert(v.as.truth);
    arena_free(&arena);
    fixture_close(&f);
}
END_TEST

START_TEST(peer_addresses_lose_their_port)
{
    ck_assert(str_is(activation_peer_ip("192.0.2.7:4711"), "192.0.2.7"));
    ck_assert(str_is(activation_peer_ip("[2001:db8::1]:443"), "2001:db8::1"));
    ck_assert(str_is(activation_peer_ip("unix:pid=1,uid=2"), ""));
    ck_assert(str_is(activation_peer_ip(""), ""));
}
END_TEST

Suite *suite_activation(void)
{
    Suite *s = suite_create("activation");
    TCase *t = tcase_create("ctx");
    tcase_set_timeout(t, 30);
    tcase_add_loop_test(t, ctx_has_the_shape_that_policies_expect, 0,
                        sizeof truths / sizeof truths[0]);
    tcase_add_loop_test(t, what_is_unset_is_missing_input, 0, sizeof absences / sizeof absences[0]);
    tcase_add_test(t, the_body_is_the_decoded_message);
    tcase_add_test(t, peer_addresses_lose_their_port);
    suite_add_tcase(s, t);
    return s;
}
