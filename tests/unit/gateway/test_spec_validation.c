#include <check.h>
#include <stdio.h>
#include <string.h>

#include "gateway/rpc/codec.h"
#include "gateway/services/spec_validation.h"

/* Each case is a Workspace spec and a part of the refusal's text; NULL: accepted. */
static const struct {
    const char *json;
    const char *refusal;
} cases[] = {
    {"{}", NULL},
    {"{\"image\":{\"dockerfile\":{\"inline\":\"FROM python:3.13-slim\\n\"}},"
     "\"runtime\":{\"filesystem\":{\"readOnly\":true},\"capabilities\":{\"drop\":[\"NET_RAW\","
     "\"NET_BIND_SERVICE\",\"SYS_CHROOT\",\"MKNOD\"]},"
     "\"network\":{\"egress\":{\"defaultAction\":\"DENY\"}}}}",
     NULL},
    {"{\"image\":{\"dockerfile\":{\"inline\":\"\"}}}", "spec.image.dockerfile.inline is empty"},
    {"{\"image\":{\"dockerfile\":{}}}", "spec.image.dockerfile is empty"},
    {"{\"image\":{\"dockerfile\":{\"url\":\"http://x/y\"}}}",
     "spec.image.dockerfile.url: 'http://x/y' is not an https:// URL"},
    {"{\"image\":{\"registry\":{\"url\":\"python:3.13-slim\"}}}", NULL},
    {"{\"image\":{\"registry\":{\"url\":\"\"}}}", "spec.image.registry.url is empty"},
    {"{\"image\":{\"registry\":{\"url\":\"--help\"}}}", "begins with '-'"},
    {"{\"image\":{\"registry\":{\"url\":\"${{ vars.IMAGE }}\"}}}", NULL},
    {"{\"image\":{\"registry\":{\"url\":\"a b\"}}}", "holds a space"},
    {"{\"image\":{\"registry\":{\"url\":\"a\",\"authentication\":{\"username\":\"u\"}}}}",
     "password.fromSecret is unset"},
    {"{\"repository\":{\"url\":\"git@github.com:a/b\"}}", "spec.repository.url"},
    {"{\"repository\":{\"url\":\"https://github.com/a/b\","
     "\"cloneOptions\":{\"branch\":\"--upload-pack=x\"}}}",
     "spec.repository.cloneOptions.branch"},
    {"{\"repository\":{\"url\":\"https://-oProxyCommand=x/y\"}}", "no valid host"},
    {"{\"additionalRepositories\":[{\"name\":\"a\",\"repository\":{\"url\":\"https://h/a\"}},"
     "{\"name\":\"a\",\"repository\":{\"url\":\"https://h/a\"}}]}",
     "spec.additionalRepositories[1].name: 'a' is used twice"},
    {"{\"runtime\":{\"envVars\":[{\"key\":\"A\",\"value\":\"1\"}]}}", NULL},
    {"{\"runtime\":{\"envVars\":[{\"key\":\"A\",\"value\":\"\"}]}}",
     "spec.runtime.envVars[0].value is empty"},
    {"{\"runtime\":{\"envVars\":[{\"key\":\"A\"}]}}", "spec.runtime.envVars[0].value is empty"},
    {"{\"runtime\":{\"envVars\":[{\"key\":\"A=B\",\"value\":\"1\"}]}}", "holds '='"},
    {"{\"runtime\":{\"envVars\":[{\"key\":\"\xc3\xa4\",\"value\":\"1\"}]}}",
     "spec.runtime.envVars[0].key"},
    {"{\"runtime\":{\"tasks\":[{\"run\":\"true\",\"type\":\"ON_CREATE\"}]}}", NULL},
    {"{\"runtime\":{\"tasks\":[{\"run\":\"true\"}]}}", "spec.runtime.tasks[0].type is unset"},
    {"{\"runtime\":{\"tasks\":[{\"run\":\"\",\"type\":\"PRE_STOP\"}]}}",
     "spec.runtime.tasks[0].run is empty"},
    {"{\"runtime\":{\"tasks\":[{\"run\":\"x\",\"type\":\"PRE_STOP\",\"workingDir\":\"a\"}]}}",
     "spec.runtime.tasks[0].workingDir: 'a' is not an absolute path"},
    {"{\"runtime\":{\"capabilities\":{\"add\":[\"ALL\"]}}}", NULL},
    {"{\"runtime\":{\"capabilities\":{\"add\":[\"CAP_NET_RAW\"]}}}", "without CAP_"},
    {"{\"runtime\":{\"capabilities\":{\"drop\":[\"net_raw\"]}}}",
     "spec.runtime.capabilities.drop[0]: 'net_raw'"},
    {"{\"runtime\":{\"timeout\":{\"mode\":7}}}", "spec.runtime.timeout.mode is 7"},
    {"{\"applications\":[{\"name\":\"web\",\"port\":8080}]}", NULL},
    {"{\"applications\":[{\"name\":\"web\",\"port\":0}]}", "spec.applications[0].port is 0"},
    {"{\"applications\":[{\"name\":\"a\",\"port\":1,\"isDefault\":true},"
     "{\"name\":\"b\",\"port\":2,\"isDefault\":true}]}",
     "'a' and 'b' are both the default"},
    {"{\"limit\":{\"memory\":{\"megabytes\":10000001}}}", "spec.limit.memory.megabytes"},
    {"{\"vars\":[{\"name\":\"\",\"value\":\"x\"}]}", "spec.vars[0].name is empty"},
    /* Network rules. */
    {"{\"runtime\":{\"network\":{\"egress\":{\"rules\":[{\"action\":\"ALLOW\","
     "\"cidrs\":[\"10.0.0.0/8\",\"2001:db8::/32\",\"0.0.0.0/0\"],\"ports\":[443]}]}}}}",
     NULL},
    {"{\"runtime\":{\"network\":{\"egress\":{\"rules\":[{\"cidrs\":[\"10.0.0.0/8\"]}]}}}}",
     "spec.runtime.network.egress.rules[0].action is unset"},
    {"{\"runtime\":{\"network\":{\"egress\":{\"rules\":[{\"action\":\"ALLOW\"}]}}}}",
     "rules[0].cidrs is empty"},
    {"{\"runtime\":{\"network\":{\"egress\":{\"rules\":[{\"action\":\"DENY\","
     "\"cidrs\":[\"10.0.0.1\"]}]}}}}",
     "rules[0].cidrs[0]: '10.0.0.1' is not a CIDR"},
    {"{\"runtime\":{\"network\":{\"egress\":{\"rules\":[{\"action\":\"DENY\","
     "\"cidrs\":[\"10.0.0.0/33\"]}]}}}}",
     "outside 0 to 32"},
    {"{\"runtime\":{\"network\":{\"egress\":{\"rules\":[{\"action\":\"DENY\","
     "\"cidrs\":[\"10.0.0.0/-1\"]}]}}}}",
     "outside 0 to 32"},
    {"{\"runtime\":{\"network\":{\"egress\":{\"rules\":[{\"action\":\"DENY\","
     "\"cidrs\":[\"\"]}]}}}}",
     "is not a CIDR"},
    {"{\"runtime\":{\"network\":{\"egress\":{\"rules\":[{\"action\":\"DENY\","
     "\"cidrs\":[\"::ffff:10.0.0.0/104\"]}]}}}}",
     "IPv4-mapped"},
    {"{\"runtime\":{\"network\":{\"egress\":{\"rules\":[{\"action\":\"DENY\","
     "\"cidrs\":[\"example.com/24\"]}]}}}}",
     "does not begin with an IPv4 or IPv6 address"},
    {"{\"runtime\":{\"network\":{\"egress\":{\"rules\":[{\"action\":\"DENY\","
     "\"cidrs\":[\"10.0.0.0/8\"],\"ports\":[0]}]}}}}",
     "rules[0].ports[0] is 0"},
    /* Volume mounts. */
    {"{\"runtime\":{\"volumeMounts\":[{\"volumeRef\":{\"name\":\"a1\"},\"mountPath\":\"/data\"}]}}",
     NULL},
    {"{\"runtime\":{\"volumeMounts\":[{\"volumeRef\":{},\"mountPath\":\"/data\"}]}}",
     "volumeMounts[0].volumeRef is unset"},
    {"{\"runtime\":{\"volumeMounts\":[{\"volumeRef\":{\"name\":\"a1\"},\"mountPath\":\"/etc\"}]}}",
     "'/etc' is reserved"},
    {"{\"runtime\":{\"volumeMounts\":[{\"volumeRef\":{\"name\":\"a1\"},"
     "\"mountPath\":\"/proc/x\"}]}}",
     "below a reserved folder"},
    {"{\"runtime\":{\"volumeMounts\":[{\"volumeRef\":{\"name\":\"a1\"},"
     "\"mountPath\":\"/a/../etc\"}]}}",
     "not a canonical absolute path"},
    {"{\"runtime\":{\"volumeMounts\":[{\"volumeRef\":{\"name\":\"a1\"},"
     "\"mountPath\":\"/a/\"}]}}",
     "not a canonical absolute path"},
    {"{\"runtime\":{\"volumeMounts\":[{\"volumeRef\":{\"name\":\"a1\"},\"mountPath\":\"/a\"},"
     "{\"volumeRef\":{\"name\":\"b1\"},\"mountPath\":\"/a/b\"}]}}",
     "overlaps another mount"},
    {"{\"runtime\":{\"volumeMounts\":[{\"volumeRef\":{\"name\":\"a1\"},\"mountPath\":\"/a\"},"
     "{\"volumeRef\":{\"name\":\"a1\"},\"mountPath\":\"/b\"}]}}",
     "mounts a Volume that is mounted already"},
};

static struct arena arena;
static struct error err;

static void setup(void)
{
    arena_init(&arena, 4 << 20);
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
    ck_assert_msg(rc == 0, "%s: %s", json, err.text);
    return m;
}

START_TEST(a_spec_is_accepted_or_refused_by_field_and_value)
{
    err = (struct error){0};
    const char *json = cases[_i].json;
    int rc = spec_validate_workspace(
        (const void *)message(&cordium__workspace__spec__descriptor, json), &err);
    if (!cases[_i].refusal) {
        ck_assert_msg(rc == 0, "%s: %s", json, err.text);
        return;
    }
    ck_assert_msg(rc == -STATUS_INVALID_ARGUMENT, "%s: was accepted", json);
    ck_assert_msg(strstr(err.text, cases[_i].refusal), "%s: '%s' is not in '%s'", json,
                  cases[_i].refusal, err.text);
}
END_TEST

START_TEST(a_dockerfile_has_at_most_5000_bytes)
{
    Cordium__Workspace__Spec spec = CORDIUM__WORKSPACE__SPEC__INIT;
    Cordium__Workspace__Spec__Image image = CORDIUM__WORKSPACE__SPEC__IMAGE__INIT;
    Cordium__Workspace__Spec__Image__Dockerfile dockerfile =
        CORDIUM__WORKSPACE__SPEC__IMAGE__DOCKERFILE__INIT;
    char text[5002];
    memset(text, 'x', sizeof text);
    text[5000] = 0;
    spec.image = &image;
    image.type_case = CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_DOCKERFILE;
    image.dockerfile = &dockerfile;
    dockerfile.type_case = CORDIUM__WORKSPACE__SPEC__IMAGE__DOCKERFILE__TYPE_INLINE;
    dockerfile.inline_ = text;
    ck_assert_int_eq(spec_validate_workspace(&spec, &err), 0);
    text[5000] = 'x';
    text[5001] = 0;
    ck_assert_int_eq(spec_validate_workspace(&spec, &err), -STATUS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(err.text, "5001 bytes long, the maximum is 5000"), "%s", err.text);
}
END_TEST

START_TEST(a_users_space_carries_no_limits)
{
    const Cordium__Space__Spec *spec = (const void *)message(
        &cordium__space__spec__descriptor, "{\"limit\":{\"maxLimit\":{\"cpu\":{\"millicores\":5}}},"
                                           "\"authorization\":{\"disableSSH\":true}}");
    ck_assert_int_eq(spec_validate_space(spec, true, &err), 0);
    ck_assert_int_eq(spec_validate_space(spec, false, &err), -STATUS_PERMISSION_DENIED);
    ck_assert_int_eq(spec_validate_space(NULL, false, &err), -STATUS_INVALID_ARGUMENT);
}
END_TEST

START_TEST(a_cluster_config_needs_effects_and_conditions)
{
    static const char *const bad[] = {
        "{\"space\":{\"ownership\":{\"rules\":[{\"condition\":{\"matchAny\":true}}]}}}",
        "{\"space\":{\"ownership\":{\"rules\":[{\"effect\":\"ALLOW\"}]}}}",
        "{\"space\":{\"ownership\":{\"rules\":[{\"effect\":\"ALLOW\",\"condition\":{}}]}}}",
        "{\"space\":{\"ownership\":{\"rules\":[{\"effect\":\"ALLOW\",\"condition\":"
        "{\"opa\":{\"inline\":\"x\"}}}]}}}",
        "{\"workspace\":{\"limit\":{\"maxPerUser\":1000001}}}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const ProtobufCMessage *m = message(&cordium__cluster_config__spec__descriptor, bad[i]);
        ck_assert_msg(spec_validate_cluster_config((const void *)m, &err) ==
                          -STATUS_INVALID_ARGUMENT,
                      "%s", bad[i]);
    }
}
END_TEST

/* The parts were valid by themselves; each case is the whole, with its variables replaced. */
static const struct {
    const char *json;
    const char *refusal;
} merged_cases[] = {
    {"{}", NULL},
    {"{\"image\":{\"registry\":{\"url\":\"python:3.13-slim\"}}}", NULL},
    {"{\"image\":{\"registry\":{\"url\":\"--help\"}}}", "begins with '-'"},
    {"{\"image\":{\"registry\":{\"url\":\"\"}}}", "spec.image.registry.url is empty"},
    {"{\"image\":{\"registry\":{\"url\":\"a${{ b\"}}}", "spec.image.registry.url"},
    {"{\"image\":{\"git\":{\"url\":\"ext::sh -c id ${{\"}}}", "spec.image.git.url"},
    {"{\"repository\":{\"url\":\"ext::sh -c id\"}}", "is not an https:// URL"},
    {"{\"repository\":{\"url\":\"ext::sh ${{ -c\"}}", "spec.repository.url"},
    {"{\"repository\":{\"url\":\"https://h/a\",\"cloneOptions\":{\"branch\":\"-x\"}}}",
     "spec.repository.cloneOptions.branch"},
    {"{\"additionalRepositories\":[{\"name\":\"a\",\"repository\":{\"url\":\"-x${{\"}}]}",
     "spec.additionalRepositories[0].repository.url"},
    {"{\"runtime\":{\"tasks\":[{\"run\":\"x\",\"type\":\"PRE_STOP\",\"workingDir\":\"a\"}]}}",
     "spec.runtime.tasks[0].workingDir"},
    /* An unknown variable is empty text, and that is no reason to refuse. */
    {"{\"runtime\":{\"envVars\":[{\"key\":\"A\",\"value\":\"\"}],"
     "\"tasks\":[{\"run\":\"\",\"type\":\"PRE_STOP\"}]}}",
     NULL},
    {"{\"runtime\":{\"volumeMounts\":[{\"volumeRef\":{\"name\":\"v\"},\"mountPath\":\"/a\"},"
     "{\"volumeRef\":{\"name\":\"w\"},\"mountPath\":\"/a/b\"}]}}",
     "overlaps another mount"},
};

START_TEST(a_merged_spec_is_checked_as_a_whole)
{
    const ProtobufCMessage *m =
        message(&cordium__workspace__spec__descriptor, merged_cases[_i].json);
    memset(&err, 0, sizeof err);
    int rc = spec_validate_merged((const void *)m, &err);
    if (!merged_cases[_i].refusal) {
        ck_assert_msg(rc == 0, "%s: %s", merged_cases[_i].json, err.text);
        return;
    }
    ck_assert_msg(rc == -STATUS_INVALID_ARGUMENT && strstr(err.text, merged_cases[_i].refusal),
                  "%s: %d %s", merged_cases[_i].json, rc, err.text);
}
END_TEST

START_TEST(two_parts_of_40_rules_are_too_many)
{
    char json[8192];
    size_t n =
        (size_t)snprintf(json, sizeof json, "{\"runtime\":{\"network\":{\"egress\":{\"rules\":[");
    for (int i = 0; i < 80; i++) {
        n += (size_t)snprintf(json + n, sizeof json - n,
                              "%s{\"action\":\"ALLOW\",\"cidrs\":[\"10.0.0.%d/32\"]}", i ? "," : "",
                              i);
    }
    (void)snprintf(json + n, sizeof json - n, "]}}}}");
    const ProtobufCMessage *m = message(&cordium__workspace__spec__descriptor, json);
    ck_assert_int_eq(spec_validate_merged((const void *)m, &err), -STATUS_INVALID_ARGUMENT);
    ck_assert_msg(strstr(err.text, "spec.runtime.network.egress.rules has 80 entries"), "%s",
                  err.text);
}
END_TEST

static int count_name(void *arg, const char *value, struct error *e)
{
    (void)e;
    char *seen = arg;
    size_t n = strlen(seen);
    (void)snprintf(seen + n, 64 - n, "%s", value);
    return 0;
}

START_TEST(secrets_are_found_wherever_they_are_named)
{
    char seen[64] = "";
    const ProtobufCMessage *m =
        message(&cordium__workspace__spec__descriptor,
                "{\"image\":{\"registry\":{\"url\":\"a\",\"authentication\":{\"username\":\"u\","
                "\"password\":{\"fromSecret\":\"one.\"}}}},\"runtime\":{\"envVars\":["
                "{\"key\":\"A\",\"fromSecret\":\"two.\"},{\"key\":\"B\",\"value\":\"no\"}]}}");
    ck_assert_int_eq(spec_visit_strings(m, "from_secret", count_name, seen, &err), 0);
    ck_assert_str_eq(seen, "one.two.");
}
END_TEST

Suite *suite_spec_validation(void);

Suite *suite_spec_validation(void)
{
    Suite *suite = suite_create("spec_validation");
    TCase *t = tcase_create("spec_validation");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, a_spec_is_accepted_or_refused_by_field_and_value, 0,
                        (int)(sizeof cases / sizeof cases[0]));
    tcase_add_loop_test(t, a_merged_spec_is_checked_as_a_whole, 0,
                        (int)(sizeof merged_cases / sizeof merged_cases[0]));
    tcase_add_test(t, two_parts_of_40_rules_are_too_many);
    tcase_add_test(t, a_dockerfile_has_at_most_5000_bytes);
    tcase_add_test(t, a_users_space_carries_no_limits);
    tcase_add_test(t, a_cluster_config_needs_effects_and_conditions);
    tcase_add_test(t, secrets_are_found_wherever_they_are_named);
    suite_add_tcase(suite, t);
    return suite;
}
