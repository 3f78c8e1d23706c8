#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "executor/client/encode.h"
#include "executor/config.h"
#include "executor/sandbox_spec.h"

Suite *suite_spec(void);

struct fixture {
    struct arena arena;
    struct config config;
    struct executor_sandbox_spec spec;
    struct executor_run_spec run;
    struct sandbox_spec parsed;
    struct run_spec parsed_run;
    struct error err;
};

static const char *const argv[] = {"sh", "-c", "true"};
static const char *const env[] = {"A=b"};

static struct fixture *fixture_new(void)
{
    struct fixture *f = calloc(1, sizeof *f);
    arena_init(&f->arena, 4 << 20);
    ck_assert_int_eq(config_parse("gateway_uid = 1\n", "test", &f->arena, &f->config, &f->err), 0);
    f->spec = (struct executor_sandbox_spec){
        .id.bytes = {1},
        .profile = EXECUTOR_PROFILE_WORKSPACE,
        .image.bytes = {2},
        .storage.bytes = {3},
        .limits = {.memory_bytes = 64 << 20,
                   .disk_bytes = 64 << 20,
                   .cpu_millicores = 500,
                   .pids = 32},
        .root_read_only = true,
        .uid = 1000,
        .gid = 1000,
        .home = "/home/x",
    };
    f->run = (struct executor_run_spec){
        .sandbox.bytes = {1},
        .argv = argv,
        .argc = 3,
        .env = env,
        .env_count = 1,
        .cwd = "/",
    };
    return f;
}

static void fixture_free(struct fixture *f)
{
    arena_free(&f->arena);
    free(f);
}

static int parse(struct fixture *f)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    ck_assert_int_eq(encode_sandbox_spec(&b, &f->spec, &f->err), 0);
    int r = sandbox_spec_parse(b.ptr, b.len, &f->config, &f->arena, &f->parsed, &f->err);
    /* Every cut of a good message is refused, and so is a byte too many. */
    for (size_t n = 0; r == 0 && n < b.len; n++) {
        struct sandbox_spec ignored;
        uint8_t *cut = malloc(n ? n : 1);
        memcpy(cut, b.ptr, n);
        ck_assert_int_lt(sandbox_spec_parse(cut, n, &f->config, &f->arena, &ignored, &f->err), 0);
        free(cut);
    }
    buf_add_u8(&b, 0);
    struct sandbox_spec ignored;
    ck_assert_int_lt(sandbox_spec_parse(b.ptr, b.len, &f->config, &f->arena, &ignored, &f->err), 0);
    buf_free(&b);
    return r;
}

static int parse_run(struct fixture *f)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    ck_assert_int_eq(encode_run_spec(&b, &f->run, &f->err), 0);
    int r = run_spec_parse(b.ptr, b.len, &f->config, &f->arena, &f->parsed_run, &f->err);
    for (size_t n = 0; r == 0 && n < b.len; n++) {
        struct run_spec ignored;
        uint8_t *cut = malloc(n ? n : 1);
        memcpy(cut, b.ptr, n);
        ck_assert_int_lt(run_spec_parse(cut, n, &f->config, &f->arena, &ignored, &f->err), 0);
        free(cut);
    }
    /* The parsed views die with the message. */
    f->parsed_run.args = STR_NONE;
    buf_free(&b);
    return r;
}

START_TEST(sandbox_spec_survives_the_wire)
{
    struct fixture *f = fixture_new();
    const struct executor_cidr cidr = {4, 8, {10}};
    const uint16_t ports[] = {80, 443};
    const struct executor_network_rule rule = {true, &cidr, 1, ports, 2};
    f->spec.network = (struct executor_network){EXECUTOR_NETWORK_RULES, false, &rule, 1};
    f->spec.capabilities = UINT64_MAX;
    f->spec.want_proxy_socket = true;
    ck_assert_int_eq(parse(f), 0);
    ck_assert_str_eq(f->parsed.home, "/home/x");
    ck_assert_str_eq(f->parsed.hostname, "cordium");
    ck_assert_uint_eq(f->parsed.limits.pids, 32);
    ck_assert(f->parsed.root_read_only && f->parsed.want_proxy_socket && !f->parsed.is_build);
    ck_assert_uint_eq(f->parsed.capabilities, f->config.capabilities_max);
    ck_assert_uint_eq(f->parsed.network.rule_count, 1);
    ck_assert_uint_eq(f->parsed.network.rules[0].ports[1], 443);
    ck_assert_uint_eq(f->parsed.network.default_action, NETWORK_ACTION_DENY);
    fixture_free(f);
}
END_TEST

START_TEST(limits_over_the_ceiling_are_refused_naming_it)
{
    struct fixture *f = fixture_new();
    f->spec.limits.memory_bytes = f->config.memory_bytes_max + 1;
    ck_assert_int_eq(parse(f), -STATUS_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(f->err.text, "memory_bytes"));
    f->spec.limits.memory_bytes = f->config.memory_bytes_max;
    ck_assert_int_eq(parse(f), 0);
    f->spec.limits.pids = 0;
    ck_assert_int_eq(parse(f), -STATUS_INVALID_ARGUMENT);
    f->spec.limits.pids = 32;
    f->spec.limits.shm_bytes = f->spec.limits.memory_bytes + 1;
    ck_assert_int_eq(parse(f), -STATUS_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(f->err.text, "shm_bytes"));
    f->spec.limits.shm_bytes = f->spec.limits.memory_bytes;
    f->spec.limits.inodes = 1;
    ck_assert_int_eq(parse(f), -STATUS_INVALID_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(f->err.text, "inodes"));
    f->spec.limits.inodes = 100;
    ck_assert_int_eq(parse(f), 0);
    ck_assert_uint_eq(f->parsed.limits.inodes, 100);
    ck_assert_uint_eq(f->parsed.limits.shm_bytes, f->spec.limits.memory_bytes);
    f->spec.limits.disk_bytes = 0;
    ck_assert_int_eq(parse(f), -STATUS_INVALID_ARGUMENT);
    fixture_free(f);
}
END_TEST

START_TEST(home_cannot_point_elsewhere)
{
    static const char *const bad[] = {
        "",           "/",          "home",        "/home/../etc", "/home//x",
        "/home/",     "/./x",       "/proc/x",     "/tmp",         "/tmp/x",
        "/workspace", "/dev/shm/x", "/etc/passwd", "/usr/home",    "/opt/cordium/x",
        "/run/user"};
    struct fixture *f = fixture_new();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        f->spec.home = bad[i];
        ck_assert_msg(parse(f) == -STATUS_INVALID_ARGUMENT, "home '%s'", bad[i]);
    }
    f->spec.home = "/root";
    ck_assert_int_eq(parse(f), 0);
    f->spec.home = "/tmpx/y";
    ck_assert_int_eq(parse(f), 0);
    fixture_free(f);
}
END_TEST

START_TEST(workspace_user_is_never_root_and_stays_in_its_range)
{
    static const uint32_t bad[] = {0, 65534, 65535, 65536, UINT32_MAX};
    struct fixture *f = fixture_new();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        f->spec.uid = bad[i];
        ck_assert_int_eq(parse(f), -STATUS_INVALID_ARGUMENT);
    }
    f->spec.uid = 1000;
    f->spec.gid = 65534;
    ck_assert_int_eq(parse(f), -STATUS_INVALID_ARGUMENT);
    fixture_free(f);
}
END_TEST

START_TEST(hostname_is_one_label)
{
    static const char *const bad[] = {"a.b", "-a", "a-", "a b", "a\n127.0.0.1 x", "\xc3\xa9"};
    struct fixture *f = fixture_new();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        f->spec.hostname = bad[i];
        ck_assert_msg(parse(f) == -STATUS_INVALID_ARGUMENT, "hostname '%s'", bad[i]);
    }
    fixture_free(f);
}
END_TEST

START_TEST(build_network_is_for_builds)
{
    struct fixture *f = fixture_new();
    f->spec.network.mode = EXECUTOR_NETWORK_BUILD;
    ck_assert_int_eq(parse(f), -STATUS_INVALID_ARGUMENT);
    f->spec.profile = EXECUTOR_PROFILE_BUILD;
    f->spec.home = "";
    ck_assert_int_eq(parse(f), 0);
    ck_assert(f->parsed.is_build_network);
    f->config.network = false;
    ck_assert_int_eq(parse(f), -STATUS_INVALID_ARGUMENT);
    fixture_free(f);
}
END_TEST

START_TEST(ids_of_zero_are_refused)
{
    struct fixture *f = fixture_new();
    f->spec.storage = (struct executor_uuid){0};
    ck_assert_int_eq(parse(f), -STATUS_INVALID_ARGUMENT);
    f->spec.storage.bytes[0] = 1;
    f->spec.image = (struct executor_digest){0};
    ck_assert_int_eq(parse(f), -STATUS_INVALID_ARGUMENT);
    fixture_free(f);
}
END_TEST

START_TEST(run_spec_survives_the_wire)
{
    struct fixture *f = fixture_new();
    ck_assert_int_eq(parse_run(f), 0);
    ck_assert_uint_eq(f->parsed_run.argc, 3);
    ck_assert_uint_eq(f->parsed_run.env_count, 1);
    ck_assert_str_eq(f->parsed_run.cwd, "/");
    f->run.cwd = "";
    ck_assert_int_eq(parse_run(f), 0);
    f->run.cwd = "relative";
    ck_assert_int_eq(parse_run(f), -STATUS_INVALID_ARGUMENT);
    fixture_free(f);
}
END_TEST

START_TEST(run_ids_stay_in_the_range)
{
    static const uint32_t bad[] = {65534, 65535, 65536, 4294967295u};
    struct fixture *f = fixture_new();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        f->run.uid = bad[i];
        ck_assert_int_eq(parse_run(f), -STATUS_INVALID_ARGUMENT);
        f->run.uid = 0;
        f->run.gid = bad[i];
        ck_assert_int_eq(parse_run(f), -STATUS_INVALID_ARGUMENT);
        f->run.gid = 0;
    }
    f->run.flags = 4;
    ck_assert_int_eq(parse_run(f), -STATUS_INVALID_ARGUMENT);
    fixture_free(f);
}
END_TEST

START_TEST(run_arguments_must_be_as_many_as_announced)
{
    struct fixture *f = fixture_new();
    struct buf b;
    struct run_spec ignored;
    buf_init(&b, 4096);
    ck_assert_int_eq(encode_run_spec(&b, &f->run, &f->err), 0);
    size_t argc_at = 16 + 4 + 4 + 4 + 2 + 2 + 8 + 4;
    for (uint32_t argc = 0; argc < 8; argc++) {
        memcpy(b.ptr + argc_at, &argc, sizeof argc);
        int r = run_spec_parse(b.ptr, b.len, &f->config, &f->arena, &ignored, &f->err);
        ck_assert((r == 0) == (argc == 3));
    }
    uint32_t argc = 3;
    memcpy(b.ptr + argc_at, &argc, sizeof argc);
    b.ptr[b.len - 1] = 'x'; /* the last string has no end now */
    ck_assert_int_lt(run_spec_parse(b.ptr, b.len, &f->config, &f->arena, &ignored, &f->err), 0);
    buf_free(&b);
    fixture_free(f);
}
END_TEST

START_TEST(config_names_the_line_it_does_not_like)
{
    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {"gateway_uid = 1\nnonsense\n", "t:2: not a line"},
        {"x = 1\n", "t:1: unknown key 'x'"},
        {"gateway_uid = -1\n", "bad value"},
        {"gateway_uid = 99999999999\n", "bad value"},
        {"gateway_uid = 1\nnetwork = maybe\n", "t:2: bad value 'maybe'"},
        {"gateway_uid = 1\nbuild_allow = 10.0.0.0/33\n", "t:2: bad value"},
        {"gateway_uid = 1\nstate_dir = relative\n", "absolute"},
        {"gateway_uid = 1\ninstance = Upper\n", "instance"},
        {"# nothing\n", "gateway_uid is not set"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct arena arena;
        struct config config;
        struct error err;
        arena_init(&arena, 1 << 16);
        ck_assert_int_lt(config_parse(bad[i].text, "t", &arena, &config, &err), 0);
        ck_assert_msg(strstr(err.text, bad[i].says) != NULL, "'%s' in '%s'", bad[i].says, err.text);
        arena_free(&arena);
    }
}
END_TEST

START_TEST(config_reads_lists_and_units)
{
    struct arena arena;
    struct config c;
    struct error err;
    arena_init(&arena, 1 << 16);
    ck_assert_int_eq(config_parse("gateway_uid = 65534\nmemory_mebibytes_max = 2\n"
                                  "build_allow = 10.0.0.0/8, 1.2.3.4\nbuild_loopback_ports = 5000\n"
                                  "quota_backend = image\n",
                                  "t", &arena, &c, &err),
                     0);
    ck_assert_uint_eq(c.memory_bytes_max, 2 << 20);
    ck_assert_uint_eq(c.build_allow_count, 2);
    ck_assert_uint_eq(c.build_allow[0].address, 0x0a000000);
    ck_assert_uint_eq(c.build_allow[1].prefix_length, 32);
    ck_assert_uint_eq(c.build_loopback_ports[0], 5000);
    ck_assert_int_eq((int)c.quota_backend, STORAGE_FILE_IMAGE);
    arena_free(&arena);
}
END_TEST

Suite *suite_spec(void)
{
    Suite *s = suite_create("executor sandbox_spec and config");
    TCase *t = tcase_create("spec");
    tcase_add_test(t, sandbox_spec_survives_the_wire);
    tcase_add_test(t, limits_over_the_ceiling_are_refused_naming_it);
    tcase_add_test(t, home_cannot_point_elsewhere);
    tcase_add_test(t, workspace_user_is_never_root_and_stays_in_its_range);
    tcase_add_test(t, hostname_is_one_label);
    tcase_add_test(t, build_network_is_for_builds);
    tcase_add_test(t, ids_of_zero_are_refused);
    tcase_add_test(t, run_spec_survives_the_wire);
    tcase_add_test(t, run_ids_stay_in_the_range);
    tcase_add_test(t, run_arguments_must_be_as_many_as_announced);
    tcase_add_test(t, config_names_the_line_it_does_not_like);
    tcase_add_test(t, config_reads_lists_and_units);
    suite_add_tcase(s, t);
    return s;
}
