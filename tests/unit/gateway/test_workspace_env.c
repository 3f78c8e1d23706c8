#include <check.h>
#include <stdio.h>

#include "gateway/rpc/codec.h"
#include "gateway/services/image_metadata.h"
#include "gateway/services/workspace_env.h"

Suite *suite_workspace_env(void);

static struct arena arena;
static struct error err;

static void open_arena(void)
{
    arena_init(&arena, 4 * 1024 * 1024);
    err = (struct error){0};
}

static void close_arena(void)
{
    arena_free(&arena);
}

static int secret(void *context, const char *name, const char **ret, struct error *e)
{
    (void)context;
    if (strcmp(name, "token") != 0) {
        return error_set(e, STATUS_NOT_FOUND, "Secret '%s' does not exist", name);
    }
    *ret = "s3cret";
    return 0;
}

static const struct workspace_secrets SECRETS = {secret, secret, NULL};

static void *yaml(const ProtobufCMessageDescriptor *descriptor, const char *text)
{
    ProtobufCMessage *m;
    ck_assert_msg(!codec_decode_yaml(descriptor, str_from(text), CODEC_STRICT, &arena, &m, &err),
                  "%s", err.text);
    return m;
}

static const char *const IMAGE_ENV[] = {"PATH=/usr/bin:/bin", "A=image", "=odd", "B=image"};
static const struct image_metadata IMAGE = {.user = "sandbox",
                                            .home = "/home/sandbox",
                                            .shell = "",
                                            .working_dir = "",
                                            .env = IMAGE_ENV,
                                            .env_count = 4};

static int build(struct workspace_env *env, const char *spec, const char *space,
                 const char *user_config)
{
    const struct workspace_env_sources sources = {
        .image = &IMAGE,
        .spec = yaml(&cordium__workspace__spec__descriptor, spec),
        .space = space ? yaml(&cordium__space__descriptor, space) : NULL,
        .user_config = user_config ? yaml(&cordium__user_config__descriptor, user_config) : NULL,
        .limit = yaml(&cordium__workspace__spec__limit__descriptor, "{cpu: {millicores: 1500}}"),
        .workspace_name = "abc",
        .hostname = "abc.cordium.localhost",
        .domain = "localhost",
        .secrets = &SECRETS,
    };
    workspace_env_init(env, &arena);
    return workspace_env_build(&sources, env, &err);
}

START_TEST(env_fixed_variables_are_there)
{
    struct workspace_env env;
    ck_assert_int_eq(build(&env, "{}", NULL, NULL), 0);
    ck_assert_str_eq(workspace_env_get(&env, "HOME"), "/home/sandbox");
    ck_assert_str_eq(workspace_env_get(&env, "LANG"), "C.UTF-8");
    ck_assert_str_eq(workspace_env_get(&env, "CORDIUM_NAME"), "abc");
    ck_assert_str_eq(workspace_env_get(&env, "OCTELIUM_DOMAIN"), "localhost");
    ck_assert_str_eq(workspace_env_get(&env, "OCTELIUM_AUTH_PROXY_SOCKET"),
                     "/var/run/octelium-proxy.sock");
    ck_assert_ptr_nonnull(workspace_env_get(&env, "TZ"));
    ck_assert_ptr_nonnull(workspace_env_get(&env, "MPLCONFIGDIR"));
}
END_TEST

START_TEST(env_thread_counts_are_the_cpu_limit_rounded_up)
{
    struct workspace_env env;
    ck_assert_int_eq(
        build(&env, "{runtime: {envVars: [{key: MKL_NUM_THREADS, value: '7'}]}}", NULL, NULL), 0);
    ck_assert_str_eq(workspace_env_get(&env, "OMP_NUM_THREADS"), "2");
    ck_assert_str_eq(workspace_env_get(&env, "OPENBLAS_NUM_THREADS"), "2");
    ck_assert_str_eq(workspace_env_get(&env, "MKL_NUM_THREADS"), "7");
}
END_TEST

START_TEST(env_path_keeps_the_image_and_ends_with_the_tools)
{
    struct workspace_env env;
    ck_assert_int_eq(build(&env, "{}", NULL, NULL), 0);
    ck_assert_str_eq(workspace_env_get(&env, "PATH"), "/usr/bin:/bin:" WORKSPACE_TOOLS_PATH);
}
END_TEST

START_TEST(env_order_is_image_user_space_spec)
{
    struct workspace_env env;
    ck_assert_int_eq(
        build(&env, "{runtime: {envVars: [{key: A, value: spec}]}}",
              "{spec: {runtime: {envVars: [{key: A, value: space}, {key: B, value: space}]}}}",
              "{spec: {envVars: [{key: B, value: user}, {key: C, value: user}]}}"),
        0);
    ck_assert_str_eq(workspace_env_get(&env, "A"), "spec");
    ck_assert_str_eq(workspace_env_get(&env, "B"), "space");
    ck_assert_str_eq(workspace_env_get(&env, "C"), "user");
}
END_TEST

START_TEST(env_fixed_cannot_be_replaced)
{
    struct workspace_env env;
    ck_assert_int_eq(
        build(&env, "{runtime: {envVars: [{key: CORDIUM_NAME, value: x}]}}", NULL, NULL), 0);
    ck_assert_str_eq(workspace_env_get(&env, "CORDIUM_NAME"), "abc");
}
END_TEST

START_TEST(env_secret_is_resolved_and_a_missing_one_is_named)
{
    struct workspace_env env;
    ck_assert_int_eq(build(&env, "{runtime: {envVars: [{key: T, fromSecret: token}]}}", NULL, NULL),
                     0);
    ck_assert_str_eq(workspace_env_get(&env, "T"), "s3cret");
    ck_assert_int_eq(build(&env, "{runtime: {envVars: [{key: T, fromSecret: none}]}}", NULL, NULL),
                     -STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "none"));
}
END_TEST

START_TEST(env_too_many_variables_are_an_error)
{
    struct workspace_env env;
    workspace_env_init(&env, &arena);
    for (int i = 0; i < 3000; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "N%d", i);
        workspace_env_set(&env, name, "x");
    }
    ck_assert(env.has_failed);
    ck_assert_uint_le(env.count, 2 * WORKSPACE_ENV_MAX);
}
END_TEST

/* --- image metadata --- */

START_TEST(metadata_of_the_image_program_is_read)
{
    struct image_metadata m;
    ck_assert_msg(
        !image_metadata_parse(
            STR("{\"user\":\"sandbox\",\"uid\":1000,\"gid\":1001,\"home\":\"/home/sandbox\","
                "\"shell\":\"/bin/sh\",\"execShell\":\"/bin/bash\",\"env\":[\"A=b\"],"
                "\"workingDir\":\"\",\"entrypoint\":[],\"digest\":\"sha256:1\",\"sizeBytes\":12}"),
            &arena, &m, &err),
        "%s", err.text);
    ck_assert_str_eq(m.user, "sandbox");
    ck_assert_uint_eq(m.uid, 1000);
    ck_assert_uint_eq(m.gid, 1001);
    ck_assert_str_eq(m.exec_shell, "/bin/bash");
    ck_assert_uint_eq(m.env_count, 1);
    ck_assert_uint_eq(m.size_bytes, 12);
}
END_TEST

START_TEST(metadata_that_is_wrong_is_refused)
{
    static const char *const BAD[] = {
        "",
        "[]",
        "{}",
        "{\"uid\":1000,\"gid\":0}",
        "{\"uid\":0,\"gid\":0,\"home\":\"/h\"}",
        "{\"uid\":70000,\"gid\":0,\"home\":\"/h\"}",
        "{\"uid\":1,\"gid\":0,\"home\":\"h\"}",
        "{\"uid\":1,\"gid\":0,\"home\":\"/a/../b\"}",
        "{\"uid\":1,\"gid\":0,\"home\":\"/a\\n\"}",
        "{\"uid\":1,\"gid\":0,\"home\":\"/a\",\"env\":{}}",
        "{\"uid\":1,\"gid\":0,\"home\":\"/a\",\"env\":[1]}",
        "{\"uid\":\"1\",\"gid\":0,\"home\":\"/a\"}",
    };
    struct image_metadata m;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        ck_assert_int_eq(image_metadata_parse(str_from(BAD[i]), &arena, &m, &err),
                         -STATUS_INVALID_ARGUMENT);
    }
}
END_TEST

START_TEST(failure_names_step_command_and_last_lines)
{
    const char *text = image_failure_text(
        STR("{\"error\":{\"status\":\"UNKNOWN\",\"message\":\"m\",\"step\":2,\"steps\":3,"
            "\"command\":\"RUN false\",\"exitCode\":1,\"lastLines\":[\"one\",\"t\\u0007wo\"]}}"),
        &arena);
    ck_assert_str_eq(text, "Step 2/3: RUN false: exit code 1\n    one\n    t wo");
    ck_assert_ptr_null(image_failure_text(STR("{\"user\":\"x\"}"), &arena));
    ck_assert_ptr_null(image_failure_text(STR("nonsense"), &arena));
}
END_TEST

Suite *suite_workspace_env(void)
{
    Suite *s = suite_create("workspace_env");
    TCase *t = tcase_create("env");
    tcase_add_checked_fixture(t, open_arena, close_arena);
    tcase_add_test(t, env_fixed_variables_are_there);
    tcase_add_test(t, env_thread_counts_are_the_cpu_limit_rounded_up);
    tcase_add_test(t, env_path_keeps_the_image_and_ends_with_the_tools);
    tcase_add_test(t, env_order_is_image_user_space_spec);
    tcase_add_test(t, env_fixed_cannot_be_replaced);
    tcase_add_test(t, env_secret_is_resolved_and_a_missing_one_is_named);
    tcase_add_test(t, env_too_many_variables_are_an_error);
    tcase_add_test(t, metadata_of_the_image_program_is_read);
    tcase_add_test(t, metadata_that_is_wrong_is_refused);
    tcase_add_test(t, failure_names_step_command_and_last_lines);
    suite_add_tcase(s, t);
    return s;
}
