#include <check.h>
#include <stdlib.h>

#include "gateway/authorize/apply.h"
#include "gateway/authorize/authorize.h"
#include "tests/unit/gateway/actor_fixture.h"

Suite *suite_authorize(void);

#define METHOD_PATH "/octelium.api.main.cordium.v1.MainService/GetSpace"

#define ALLOW_ALL                                                                                  \
    "kind: Policy\n"                                                                               \
    "metadata: {name: allow-all}\n"                                                                \
    "spec: {rules: [{effect: ALLOW, condition: {matchAny: true}}]}\n"

#define DENY_SANDBOXES                                                                             \
    "---\n"                                                                                        \
    "kind: Policy\n"                                                                               \
    "metadata:\n"                                                                                  \
    "  name: deny-sandboxes\n"                                                                     \
    "spec:\n"                                                                                      \
    "  rules:\n"                                                                                   \
    "    - effect: DENY\n"                                                                         \
    "      condition:\n"                                                                           \
    "        all:\n"                                                                               \
    "          of:\n"                                                                              \
    "            - match: '\"ext\" in ctx.session.status && \"cordium\" in "                       \
    "ctx.session.status.ext'\n"                                                                    \
    "            - match: ctx.session.status.ext.cordium.spaceRef.name == "                        \
    "\"sandboxes.cordium\"\n"                                                                      \
    "---\n"                                                                                        \
    "kind: ClusterConfig\n"                                                                        \
    "spec:\n"                                                                                      \
    "  authorization:\n"                                                                           \
    "    policies: [\"deny-sandboxes\"]\n"

static void apply(struct actor_fixture *f, const char *yaml)
{
    Ext__ApplyResponse *response;
    struct apply_options options = {.wall_ns = FIXTURE_NOW_NS};
    int rc = apply_documents(&f->gateway, str_from(yaml), &options, &f->arena, &response, &f->err);
    ck_assert_msg(rc == 0, "%s", f->err.text);
}

static void set_session(struct actor_fixture *f, const char *json)
{
    f->request.actor.session =
        (Core__Session *)fixture_message(f, &core__session__descriptor, json);
}

#define SESSION_IN(space)                                                                          \
    "{\"metadata\": {\"name\": \"s1\"}, \"spec\": {\"state\": \"ACTIVE\"},"                        \
    " \"status\": {\"ext\": {\"cordium\": {\"spaceRef\": {\"name\": \"" space "\"}}}}}"

static void assert_denied(struct actor_fixture *f, const char *reason, const char *text)
{
    struct request *r = &f->request;
    ck_assert_int_eq(authorize_request(r, &f->err), -STATUS_PERMISSION_DENIED);
    ck_assert(!r->decision.is_allowed);
    ck_assert_str_eq(r->decision.reason_type, reason);
    ck_assert_msg(strstr(f->err.text, text) != NULL, "%s", f->err.text);
}

START_TEST(no_policy_denies)
{
    struct actor_fixture f;
    fixture_open(&f);
    apply(&f, ALLOW_ALL);
    struct request *r = fixture_request(&f, METHOD_PATH);
    r->actor.user = (Core__User *)fixture_message(&f, &core__user__descriptor,
                                                  "{\"metadata\": {\"name\": \"bob\"}}");
    assert_denied(&f, "NO_POLICY_MATCH", "no policy allows this");
    fixture_close(&f);
}
END_TEST

START_TEST(the_documented_policy_denies_the_sandbox_and_not_its_owner)
{
    struct actor_fixture f;
    fixture_open(&f);
    apply(&f, ALLOW_ALL DENY_SANDBOXES);
    struct request *r = fixture_request(&f, METHOD_PATH);
    ck_assert_msg(authorize_request(r, &f.err) == 0, "%s", f.err.text);
    ck_assert_str_eq(r->decision.policy_name, "allow-all");
    ck_assert_str_eq(r->decision.attached_to, "User ann");
    ck_assert_uint_gt(r->decision.set_version, 1);
    set_session(&f, SESSION_IN("sandboxes.cordium"));
    assert_denied(&f, "POLICY_MATCH",
                  "Denied by policy 'deny-sandboxes' (rule #0), attached to "
                  "ClusterConfig");
    ck_assert_str_eq(r->decision.policy_name, "deny-sandboxes");
    set_session(&f, SESSION_IN("dev.ann"));
    ck_assert_int_eq(authorize_request(r, &f.err), 0);
    fixture_close(&f);
}
END_TEST

static const struct {
    const char *session;
    const char *user;
    const char *reason;
} gates[] = {
    {"{\"spec\": {\"state\": \"PENDING\"}}", "{}", "SESSION_NOT_ACTIVE"},
    {"{}", "{}", "SESSION_NOT_ACTIVE"},
    {"{\"spec\": {\"state\": \"ACTIVE\", \"expiresAt\": \"2020-01-01T00:00:00Z\"}}", "{}",
     "SESSION_EXPIRED"},
    {"{\"spec\": {\"state\": \"ACTIVE\"}, \"status\": {\"isLocked\": true}}", "{}",
     "SESSION_LOCKED"},
    {"{\"spec\": {\"state\": \"ACTIVE\"}}", "{\"status\": {\"isLocked\": true}}", "USER_LOCKED"},
    {"{\"spec\": {\"state\": \"ACTIVE\"}, \"status\": {\"authenticatorAction\":"
     " \"AUTHENTICATION_REQUIRED\"}}",
     "{}", "AUTHENTICATOR_AUTHENTICATION_REQUIRED"},
    {"{\"spec\": {\"state\": \"ACTIVE\"}, \"status\": {\"authenticatorAction\":"
     " \"REGISTRATION_REQUIRED\"}}",
     "{}", "AUTHENTICATOR_REGISTRATION_REQUIRED"},
    {"{\"spec\": {\"state\": \"ACTIVE\"}}", "{\"spec\": {\"isDisabled\": true}}",
     "USER_DEACTIVATED"},
    {"{\"spec\": {\"state\": \"ACTIVE\"}, \"status\": {\"scopes\": [{\"api\": {\"filter\":"
     " {\"methods\": [\"octelium.api.main.cordium.v1.MainService/ListSpace\"]}}}]}}",
     "{}", "SCOPE_UNAUTHORIZED"},
    /* The first gate that fails is the one that is told. */
    {"{\"spec\": {\"state\": \"REJECTED\"}, \"status\": {\"isLocked\": true}}",
     "{\"spec\": {\"isDisabled\": true}}", "SESSION_NOT_ACTIVE"},
};

START_TEST(gates_stand_before_policies)
{
    struct actor_fixture f;
    fixture_open(&f);
    apply(&f, ALLOW_ALL);
    struct request *r = fixture_request(&f, METHOD_PATH);
    set_session(&f, gates[_i].session);
    r->actor.user = (Core__User *)fixture_message(&f, &core__user__descriptor, gates[_i].user);
    assert_denied(&f, gates[_i].reason, gates[_i].reason);
    fixture_close(&f);
}
END_TEST

START_TEST(a_scope_that_covers_the_method_passes)
{
    struct actor_fixture f;
    fixture_open(&f);
    apply(&f, ALLOW_ALL);
    struct request *r = fixture_request(&f, METHOD_PATH);
    set_session(&f, "{\"spec\": {\"state\": \"ACTIVE\"}, \"status\": {\"scopes\": [{\"api\":"
                    " {\"filter\": {\"packages\": [\"octelium.api.main.cordium.v1\"]}}}]}}");
    ck_assert_msg(authorize_request(r, &f.err) == 0, "%s", f.err.text);
    fixture_close(&f);
}
END_TEST

START_TEST(nobody_is_unauthenticated)
{
    struct actor_fixture f;
    fixture_open(&f);
    struct request *r = fixture_request(&f, METHOD_PATH);
    r->actor = (struct actor){0};
    ck_assert_int_eq(authorize_request(r, &f.err), -STATUS_UNAUTHENTICATED);
    fixture_close(&f);
}
END_TEST

START_TEST(an_attached_policy_that_is_gone_denies)
{
    struct actor_fixture f;
    fixture_open(&f);
    (void)fixture_request(&f, METHOD_PATH);
    assert_denied(&f, "POLICY_MISSING", "policy 'allow-all', attached to User ann");
    fixture_close(&f);
}
END_TEST

#define BROKEN_RULE                                                                                \
    "---\n"                                                                                        \
    "kind: Group\n"                                                                                \
    "metadata: {name: dev}\n"                                                                      \
    "spec: {authorization: {policies: [broken]}}\n"                                                \
    "---\n"                                                                                        \
    "kind: Policy\n"                                                                               \
    "metadata: {name: broken}\n"                                                                   \
    "spec:\n"                                                                                      \
    "  rules:\n"                                                                                   \
    "    - name: bad one\n"                                                                        \
    "      effect: ALLOW\n"                                                                        \
    "      priority: -1\n"                                                                         \
    "      condition: {match: 'ctx.user.metadata.name > 3'}\n"

START_TEST(an_error_denies_and_names_the_rule_but_not_the_request)
{
    struct actor_fixture f;
    fixture_open(&f);
    apply(&f, ALLOW_ALL BROKEN_RULE);
    struct request *r = fixture_request(&f, METHOD_PATH);
    ProtobufCMessage *group;
    ck_assert_int_eq(
        store_get_by_name(f.gateway.store, STORE_GROUP, "dev", &f.arena, &group, &f.err), 0);
    const Core__Group *groups[] = {(Core__Group *)group};
    r->actor.groups = groups;
    r->actor.group_count = 1;
    assert_denied(&f, "EVALUATION_ERROR", "'broken' (rule bad one), attached to Group dev");
    ck_assert_ptr_nonnull(strstr(r->decision.detail, "no_such_overload"));
    ck_assert_ptr_null(strstr(r->decision.detail, "ann"));
    fixture_close(&f);
}
END_TEST

#define USER_WITH_INLINE(version, effect)                                                          \
    "{\"metadata\": {\"name\": \"ann\", \"uid\": \"11111111-1111-4111-8111-111111111111\","        \
    " \"resourceVersion\": \"" version "\"}, \"spec\": {\"authorization\": {\"inlinePolicies\":"   \
    " [{\"name\": \"mine\", \"spec\": {\"rules\": [{\"effect\": \"" effect "\","                   \
    " \"condition\": {\"matchAny\": true}}]}}]}}}"

START_TEST(inline_policies_follow_the_version_of_their_owner)
{
    struct actor_fixture f;
    fixture_open(&f);
    struct request *r = fixture_request(&f, METHOD_PATH);
    const char *users[] = {USER_WITH_INLINE("v1", "ALLOW"), USER_WITH_INLINE("v1", "ALLOW"),
                           USER_WITH_INLINE("v2", "DENY")};
    for (size_t i = 0; i < 3; i++) {
        r->actor.user = (Core__User *)fixture_message(&f, &core__user__descriptor, users[i]);
        (void)authorize_request(r, &f.err);
        ck_assert_str_eq(r->decision.reason_type, "POLICY_MATCH");
        ck_assert(r->decision.is_inline);
        ck_assert_str_eq(r->decision.policy_name, "mine");
        ck_assert_int_eq(r->decision.is_allowed, i < 2);
    }
    fixture_close(&f);
}
END_TEST

START_TEST(a_stored_inline_policy_that_does_not_compile_denies)
{
    struct actor_fixture f;
    fixture_open(&f);
    apply(&f, ALLOW_ALL);
    struct request *r = fixture_request(&f, METHOD_PATH);
    r->actor.user = (Core__User *)fixture_message(
        &f, &core__user__descriptor,
        "{\"metadata\": {\"name\": \"ann\"}, \"spec\": {\"authorization\": {\"policies\":"
        " [\"allow-all\"], \"inlinePolicies\": [{\"name\": \"x\", \"spec\": {\"rules\":"
        " [{\"effect\": \"DENY\", \"condition\": {\"match\": \"1 +\"}}]}}]}}}");
    assert_denied(&f, "EVALUATION_ERROR", "could not be evaluated");
    fixture_close(&f);
}
END_TEST

#define DENY_ALL                                                                                   \
    "---\n"                                                                                        \
    "kind: Policy\n"                                                                               \
    "metadata: {name: deny-all}\n"                                                                 \
    "spec: {rules: [{effect: DENY, condition: {matchAny: true}}]}\n"

START_TEST(a_session_and_its_credential_attach_too)
{
    struct actor_fixture f;
    fixture_open(&f);
    apply(&f, ALLOW_ALL DENY_ALL);
    struct request *r = fixture_request(&f, METHOD_PATH);
    r->actor.credential = (Core__Credential *)fixture_message(
        &f, &core__credential__descriptor,
        "{\"metadata\": {\"name\": \"c1\"}, \"spec\": {\"authorization\": {\"policies\":"
        " [\"deny-all\"]}}}");
    assert_denied(&f, "POLICY_MATCH", "attached to Credential c1");
    r->actor.credential = NULL;
    set_session(&f, "{\"metadata\": {\"name\": \"s1\"}, \"spec\": {\"state\": \"ACTIVE\","
                    " \"authorization\": {\"policies\": [\"deny-all\"]}}}");
    assert_denied(&f, "POLICY_MATCH", "attached to Session s1");
    fixture_close(&f);
}
END_TEST

START_TEST(strict_mode_denies_what_it_cannot_see)
{
    struct actor_fixture f;
    fixture_open(&f);
    apply(&f,
          ALLOW_ALL "---\nkind: Policy\nmetadata: {name: devices}\nspec: {rules: [{effect: DENY,"
                    " condition: {match: ctx.device.spec.state == 'PENDING'}}]}\n"
                    "---\nkind: ClusterConfig\nspec: {authorization: {policies: [devices]}}\n");
    struct request *r = fixture_request(&f, METHOD_PATH);
    ck_assert_int_eq(authorize_request(r, &f.err), 0);
    policy_store_set_strict(f.gateway.policies, true);
    assert_denied(&f, "MISSING_INPUT", "'devices' (rule #0)");
    fixture_close(&f);
}
END_TEST

/* As after a restart: another policy store over the same file. */
START_TEST(the_version_of_the_set_goes_on_after_a_restart)
{
    struct actor_fixture f;
    struct policy_store *second;
    fixture_open(&f);
    apply(&f, ALLOW_ALL);
    apply(&f, DENY_ALL);
    uint64_t version = policy_store_version(f.gateway.policies);
    ck_assert_int_eq(policy_store_new(f.gateway.store, &second, &f.err), 0);
    ck_assert_uint_eq(policy_store_version(second), 0);
    ck_assert_int_eq(policy_store_reload(second, &f.err), 0);
    ck_assert_uint_eq(policy_store_version(second), version);
    ck_assert(policy_set_has(policy_store_current(second), STR("deny-all")));
    policy_store_free(second);
    fixture_close(&f);
}
END_TEST

START_TEST(a_refresh_passes_the_gates_only)
{
    struct actor_fixture f;
    fixture_open(&f);
    struct request *r = fixture_request(&f, METHOD_PATH);
    f.method.access = METHOD_REFRESH;
    ck_assert_int_eq(authorize_request(r, &f.err), 0);
    set_session(&f, "{\"spec\": {\"state\": \"REJECTED\"}}");
    assert_denied(&f, "SESSION_NOT_ACTIVE", "not active");
    fixture_close(&f);
}
END_TEST

static void count_step(void *arg, const struct policy_rule_step *step)
{
    unsigned *leaves = arg;
    *leaves += step->kind == POLICY_CONDITION_MATCH;
}

START_TEST(a_decision_can_be_explained)
{
    struct actor_fixture f;
    unsigned leaves = 0;
    struct decision d;
    fixture_open(&f);
    apply(&f, ALLOW_ALL DENY_SANDBOXES);
    struct request *r = fixture_request(&f, METHOD_PATH);
    set_session(&f, SESSION_IN("sandboxes.cordium"));
    struct authorize_trace trace = {.step = count_step, .arg = &leaves};
    authorize_explain(r, &trace, &d, &f.err);
    ck_assert_uint_eq(leaves, 2);
    ck_assert_str_eq(d.policy_name, "deny-sandboxes");
    ck_assert_ptr_null(r->decision.reason_type);
    fixture_close(&f);
}
END_TEST

Suite *suite_authorize(void)
{
    Suite *s = suite_create("authorize");
    TCase *t = tcase_create("requests");
    tcase_set_timeout(t, 30);
    tcase_add_test(t, no_policy_denies);
    tcase_add_test(t, the_documented_policy_denies_the_sandbox_and_not_its_owner);
    tcase_add_loop_test(t, gates_stand_before_policies, 0, sizeof gates / sizeof gates[0]);
    tcase_add_test(t, a_scope_that_covers_the_method_passes);
    tcase_add_test(t, nobody_is_unauthenticated);
    tcase_add_test(t, an_attached_policy_that_is_gone_denies);
    tcase_add_test(t, an_error_denies_and_names_the_rule_but_not_the_request);
    tcase_add_test(t, inline_policies_follow_the_version_of_their_owner);
    tcase_add_test(t, a_stored_inline_policy_that_does_not_compile_denies);
    tcase_add_test(t, a_session_and_its_credential_attach_too);
    tcase_add_test(t, strict_mode_denies_what_it_cannot_see);
    tcase_add_test(t, the_version_of_the_set_goes_on_after_a_restart);
    tcase_add_test(t, a_refresh_passes_the_gates_only);
    tcase_add_test(t, a_decision_can_be_explained);
    suite_add_tcase(s, t);
    return s;
}
