#include <check.h>
#include <string.h>

#include "gateway/rpc/codec.h"
#include "gateway/services/limits.h"

static struct arena arena;
static struct error err;

static void setup(void)
{
    arena_init(&arena, 1 << 20);
    err = (struct error){0};
}

static void teardown(void)
{
    arena_free(&arena);
}

static ProtobufCMessage *message(const ProtobufCMessageDescriptor *descriptor, const char *json)
{
    ProtobufCMessage *m = NULL;
    int rc = codec_decode_json(descriptor, str_from(json), CODEC_STRICT, &arena, &m, &err);
    ck_assert_msg(rc == 0, "%s", err.text);
    return m;
}

static const Cordium__Workspace__Spec__Limit *limit(const char *json)
{
    return (const void *)message(&cordium__workspace__spec__limit__descriptor, json);
}

static const Cordium__Space *space(const char *json)
{
    return (const void *)message(&cordium__space__descriptor, json);
}

static const Cordium__ClusterConfig *cluster(const char *json)
{
    return (const void *)message(&cordium__cluster_config__descriptor, json);
}

static void expect(struct limit_values v, uint32_t cpu, uint32_t memory, uint32_t storage)
{
    ck_assert_uint_eq(v.cpu_millicores, cpu);
    ck_assert_uint_eq(v.memory_megabytes, memory);
    ck_assert_uint_eq(v.storage_megabytes, storage);
}

START_TEST(without_anything_the_built_in_numbers_hold)
{
    expect(limit_effective(&(struct limit_sources){0}), 2000, 6000, 20000);
}
END_TEST

START_TEST(the_seeds_space_gives_its_default_limit)
{
    struct limit_sources sources = {
        .space =
            space("{\"spec\":{\"limit\":{\"defaultLimit\":{\"cpu\":{\"millicores\":1000},"
                  "\"memory\":{\"megabytes\":1024},\"storage\":{\"megabytes\":4000}},"
                  "\"maxLimit\":{\"cpu\":{\"millicores\":2000},\"memory\":{\"megabytes\":4096},"
                  "\"storage\":{\"megabytes\":8000}}}},\"status\":{\"type\":\"ORGANIZATION\"}}"),
    };
    expect(limit_effective(&sources), 1000, 1024, 4000);
    sources.template_ = limit("{\"memory\":{\"megabytes\":2048}}");
    expect(limit_effective(&sources), 1000, 2048, 4000);
    sources.workspace = limit("{\"memory\":{\"megabytes\":9000},\"cpu\":{\"millicores\":1500}}");
    expect(limit_effective(&sources), 1500, 4096, 4000);
}
END_TEST

static const char *source(const struct limit_sources *sources, size_t offset, uint32_t value)
{
    return limit_source_name(limit_source_of(sources, offset, value));
}

START_TEST(who_set_a_limit_is_told_by_level)
{
    const size_t cpu = offsetof(struct limit_values, cpu_millicores);
    const size_t memory = offsetof(struct limit_values, memory_megabytes);
    const size_t storage = offsetof(struct limit_values, storage_megabytes);
    struct limit_sources sources = {
        .workspace = limit("{\"cpu\":{\"millicores\":1500},\"memory\":{\"megabytes\":9000}}"),
        .template_ = limit("{\"storage\":{\"megabytes\":300}}"),
        .space = space("{\"spec\":{\"limit\":{\"maxLimit\":{\"memory\":{\"megabytes\":4096}}}},"
                       "\"status\":{\"type\":\"ORGANIZATION\"}}"),
    };
    ck_assert_str_eq(source(&sources, cpu, 1500), "CALLER");
    ck_assert_str_eq(source(&sources, memory, 4096), "SPACE"); /* less than what was asked */
    ck_assert_str_eq(source(&sources, storage, 300), "TEMPLATE");
    ck_assert_str_eq(source(&sources, storage, 200), "HOST");
    sources.workspace = NULL;
    ck_assert_str_eq(source(&sources, cpu, 2000), "DEFAULT");
    sources.cluster = cluster("{\"spec\":{\"workspace\":{\"limit\":{"
                              "\"buildLimit\":{\"cpu\":{\"millicores\":4000}}}}}}");
    sources.is_build = true;
    sources.workspace = limit("{\"cpu\":{\"millicores\":4000}}"); /* no build asks */
    ck_assert_str_eq(source(&sources, cpu, 4000), "CLUSTER");
}
END_TEST

START_TEST(a_users_space_takes_the_clusters_default_and_maximum)
{
    struct limit_sources sources = {
        .space = space("{\"spec\":{\"limit\":{\"defaultLimit\":{\"cpu\":{\"millicores\":1}}}},"
                       "\"status\":{\"type\":\"USER\"}}"),
        .cluster = cluster("{\"spec\":{\"workspace\":{\"limit\":{"
                           "\"defaultUserSpaceLimit\":{\"cpu\":{\"millicores\":500}},"
                           "\"defaultOrganizationSpaceLimit\":{\"cpu\":{\"millicores\":700}},"
                           "\"maxLimit\":{\"memory\":{\"megabytes\":3000}}}}}}"),
    };
    expect(limit_effective(&sources), 500, 3000, 20000);
    sources.space = space("{\"spec\":{},\"status\":{\"type\":\"ORGANIZATION\"}}");
    expect(limit_effective(&sources), 700, 3000, 20000);
}
END_TEST

START_TEST(a_build_takes_the_build_limit_and_not_the_spaces)
{
    struct limit_sources sources = {
        .is_build = true,
        .workspace = limit("{\"cpu\":{\"millicores\":1}}"),
        .space = space("{\"spec\":{\"limit\":{\"maxLimit\":{\"cpu\":{\"millicores\":5}}}},"
                       "\"status\":{\"type\":\"ORGANIZATION\"}}"),
        .cluster = cluster("{\"spec\":{\"workspace\":{\"limit\":{"
                           "\"buildLimit\":{\"cpu\":{\"millicores\":4000}}}}}}"),
    };
    expect(limit_effective(&sources), 4000, 6000, 20000);
}
END_TEST

START_TEST(limits_beyond_any_machine_are_refused_by_name)
{
    ck_assert_int_eq(limit_validate(NULL, "spec.limit", &err), 0);
    ck_assert_int_eq(
        limit_validate(limit("{\"cpu\":{\"millicores\":1000000}}"), "spec.limit", &err), 0);
    ck_assert_int_eq(
        limit_validate(limit("{\"cpu\":{\"millicores\":1000001}}"), "spec.limit", &err),
        -STATUS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(err.text, "spec.limit.cpu.millicores is 1000001"), "%s", err.text);
    ck_assert_int_eq(
        limit_validate(limit("{\"storage\":{\"megabytes\":10000001}}"), "spec.limit", &err),
        -STATUS_INVALID_ARGUMENT);
}
END_TEST

START_TEST(quotas_come_from_the_cluster_config_or_are_built_in)
{
    const Cordium__ClusterConfig *c =
        cluster("{\"spec\":{\"workspace\":{\"limit\":{\"maxPerUser\":5,\"maxActivePerUser\":3}}}}");
    ck_assert_uint_eq(limit_quota_workspaces(c, 0), 5);
    ck_assert_uint_eq(limit_quota_active_workspaces(c, 7), 3);
    ck_assert_uint_eq(limit_quota_workspaces(NULL, 0), 1000);
    ck_assert_uint_eq(limit_quota_active_workspaces(NULL, 0), 128);
    ck_assert_uint_eq(limit_quota_active_workspaces(NULL, 9), 9);
}
END_TEST

START_TEST(the_message_carries_all_three_numbers)
{
    const Cordium__Workspace__Spec__Limit *m =
        limit_to_message((struct limit_values){1, 2, 3}, &arena);
    ck_assert_uint_eq(m->cpu->millicores, 1);
    ck_assert_uint_eq(m->memory->megabytes, 2);
    ck_assert_uint_eq(m->storage->megabytes, 3);
}
END_TEST

Suite *suite_limits(void);

Suite *suite_limits(void)
{
    Suite *suite = suite_create("limits");
    TCase *t = tcase_create("limits");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, without_anything_the_built_in_numbers_hold);
    tcase_add_test(t, the_seeds_space_gives_its_default_limit);
    tcase_add_test(t, who_set_a_limit_is_told_by_level);
    tcase_add_test(t, a_users_space_takes_the_clusters_default_and_maximum);
    tcase_add_test(t, a_build_takes_the_build_limit_and_not_the_spaces);
    tcase_add_test(t, limits_beyond_any_machine_are_refused_by_name);
    tcase_add_test(t, quotas_come_from_the_cluster_config_or_are_built_in);
    tcase_add_test(t, the_message_carries_all_three_numbers);
    suite_add_tcase(suite, t);
    return suite;
}
