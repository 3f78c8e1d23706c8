#include "tests/unit/gateway/request_harness.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "api/auth.pb-c.h"
#include "gateway/identity/bootstrap.h"
#include "gateway/identity/session.h"

#define AUTH "/octelium.api.main.auth.v1.MainService/"
#define STATUS "/octelium.api.main.user.v1.MainService/GetStatus"

static struct harness h;

static void setup(void)
{
    harness_open(&h);
}

static void teardown(void)
{
    harness_close(&h);
}

static const Auth__SessionToken *log_in(const char *token)
{
    harness_call(&h, NULL, AUTH "AuthenticateWithAuthenticationToken",
                 arena_printf(&h.arena, "{\"authenticationToken\":\"%s\"}", token));
    return h.status ? NULL : (const Auth__SessionToken *)h.reply;
}

START_TEST(a_login_gives_tokens_that_the_sdk_accepts)
{
    const Auth__SessionToken *t = log_in(h.admin_token);
    ck_assert_ptr_nonnull(t);
    ck_assert(strncmp(t->access_token, "cat_", 4) == 0);
    ck_assert(strncmp(t->refresh_token, "crt_", 4) == 0);
    ck_assert_int_eq(t->expires_in, 4 * 3600);
    ck_assert_int_eq(t->refresh_token_expires_in, 21 * 3600);
    harness_call(&h, t->access_token, STATUS, "{}");
    harness_expect(&h, 0, "");
    ck_assert_ptr_nonnull(strstr(harness_json(&h), "\"name\":\"admin\""));
}
END_TEST

START_TEST(calls_without_a_live_token_are_unauthenticated)
{
    harness_call(&h, NULL, STATUS, "{}");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "x-octelium-auth");
    harness_call(&h, "nonsense", STATUS, "{}");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "not one of this cluster's");
    harness_call(&h, "cat_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", STATUS, "{}");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "unknown or was replaced");
    /* A refresh token is no access token. */
    harness_call(&h, log_in(h.admin_token)->refresh_token, STATUS, "{}");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "");
}
END_TEST

START_TEST(an_access_token_comes_in_three_ways)
{
    const char *token = log_in(h.admin_token)->access_token;
    static const char *const ways[][2] = {
        {"x-octelium-auth", "%s"},
        {"cookie", "octelium_auth=%s"},
        {"cookie", "a=b; xoctelium_auth=c;  octelium_auth=%s; d=e"},
        {"authorization", "Bearer %s"},
        {"authorization", "bearer %s"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char value[256];
        const char *before = ways[i][1];
        size_t at = (size_t)(strstr(before, "%s") - before);
        (void)snprintf(value, sizeof value, "%.*s%s%s", (int)at, before, token, before + at + 2);
        harness_call_header(&h, ways[i][0], value, STATUS, "{}");
        harness_expect(&h, 0, "");
    }
    harness_call_header(&h, "authorization", token, STATUS, "{}");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "Not logged in");
    harness_call_header(&h, "cookie", "octelium_auth", STATUS, "{}");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "Not logged in");
}
END_TEST

START_TEST(an_unknown_authentication_token_is_unauthenticated)
{
    log_in("cauth_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "unknown");
    log_in("");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "unknown");
}
END_TEST

START_TEST(a_refresh_replaces_both_tokens)
{
    const Auth__SessionToken *t = log_in(h.admin_token);
    harness_call_refresh(&h, t->refresh_token, AUTH "AuthenticateWithRefreshToken");
    harness_expect(&h, 0, "");
    const Auth__SessionToken *next = (const Auth__SessionToken *)h.reply;
    ck_assert_str_ne(next->access_token, t->access_token);
    harness_call(&h, t->access_token, STATUS, "{}");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "replaced");
    harness_call_refresh(&h, t->refresh_token, AUTH "AuthenticateWithRefreshToken");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "replaced");
    harness_call(&h, next->access_token, STATUS, "{}");
    harness_expect(&h, 0, "");
}
END_TEST

START_TEST(the_sixth_early_refresh_in_an_hour_is_already_exists)
{
    const Auth__SessionToken *t = log_in(h.admin_token);
    for (int i = 0; i < 4; i++) {
        harness_call_refresh(&h, t->refresh_token, AUTH "AuthenticateWithRefreshToken");
        harness_expect(&h, 0, "");
        t = (const Auth__SessionToken *)h.reply;
    }
    harness_call_refresh(&h, t->refresh_token, AUTH "AuthenticateWithRefreshToken");
    harness_expect(&h, STATUS_ALREADY_EXISTS, "refreshed 5 times");
    /* What it has goes on working. */
    harness_call(&h, t->access_token, STATUS, "{}");
    harness_expect(&h, 0, "");
}
END_TEST

START_TEST(a_logout_ends_the_session)
{
    const Auth__SessionToken *t = log_in(h.admin_token);
    harness_call_refresh(&h, t->refresh_token, AUTH "Logout");
    harness_expect(&h, 0, "");
    harness_call(&h, t->access_token, STATUS, "{}");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "");
    harness_call_refresh(&h, t->refresh_token, AUTH "Logout");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "");
}
END_TEST

START_TEST(a_human_has_at_most_16_sessions)
{
    for (int i = 0; i < 16; i++) {
        ck_assert_ptr_nonnull(log_in(h.admin_token));
    }
    log_in(h.admin_token);
    harness_expect(&h, STATUS_PERMISSION_DENIED, "has 16 Sessions, the maximum is 16");
}
END_TEST

START_TEST(scopes_are_kept_and_checked)
{
    harness_call(&h, NULL, AUTH "AuthenticateWithAuthenticationToken",
                 arena_printf(&h.arena, "{\"authenticationToken\":\"%s\",\"scopes\":[\"x\"]}",
                              h.admin_token));
    harness_expect(&h, STATUS_INVALID_ARGUMENT, "Scope 'x' is not understood");
    harness_call(&h, NULL, AUTH "AuthenticateWithAuthenticationToken",
                 arena_printf(&h.arena,
                              "{\"authenticationToken\":\"%s\",\"scopes\":[\"api:*\","
                              "\"api:octelium.api.main.cordium.v1.MainService/GetSpace\"]}",
                              h.admin_token));
    harness_expect(&h, 0, "");
}
END_TEST

/* A credential for a workload "bot", and the token that Generate… gives for it. */
static const char *credential_token(const char *spec)
{
    const char *admin = harness_admin(&h);
    harness_core(&h, admin, "CreateUser",
                 "{\"metadata\":{\"name\":\"bot\"},\"spec\":{\"type\":\"WORKLOAD\"}}");
    harness_expect(&h, 0, "");
    harness_core(&h, admin, "CreateCredential",
                 arena_printf(&h.arena, "{\"metadata\":{\"name\":\"bot-key\"},\"spec\":%s}", spec));
    harness_expect(&h, 0, "");
    harness_core(&h, admin, "GenerateCredentialToken",
                 "{\"credentialRef\":{\"name\":\"bot-key\"}}");
    harness_expect(&h, 0, "");
    const Core__CredentialToken *t = (const Core__CredentialToken *)h.reply;
    switch ((int)t->type_case) {
    case CORE__CREDENTIAL_TOKEN__TYPE_AUTHENTICATION_TOKEN:
        return t->authentication_token->authentication_token;
    case CORE__CREDENTIAL_TOKEN__TYPE_ACCESS_TOKEN:
        return t->access_token->access_token;
    default:
        return NULL;
    }
}

START_TEST(a_single_use_credential_opens_one_session_and_goes)
{
    const char *token = credential_token("{\"type\":\"AUTH_TOKEN\",\"user\":\"bot\","
                                         "\"maxAuthentications\":1,\"autoDelete\":true}");
    const Auth__SessionToken *t = log_in(token);
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->refresh_token_expires_in, 14 * 86400);
    log_in(token);
    harness_expect(&h, STATUS_UNAUTHENTICATED, "unknown");
    harness_core(&h, harness_admin(&h), "GetCredential", "{\"name\":\"bot-key\"}");
    harness_expect(&h, STATUS_NOT_FOUND, "");
    harness_call(&h, t->access_token, STATUS, "{}");
    harness_expect(&h, 0, "");
}
END_TEST

START_TEST(a_new_token_of_a_credential_voids_the_one_before)
{
    const char *token = credential_token("{\"type\":\"AUTH_TOKEN\",\"user\":\"bot\"}");
    const char *admin = harness_admin(&h);
    harness_core(&h, admin, "GenerateCredentialToken",
                 "{\"credentialRef\":{\"name\":\"bot-key\"}}");
    harness_expect(&h, 0, "");
    log_in(token);
    harness_expect(&h, STATUS_UNAUTHENTICATED, "unknown");
}
END_TEST

START_TEST(a_disabled_credential_and_a_disabled_user_open_nothing)
{
    const char *token = credential_token("{\"type\":\"AUTH_TOKEN\",\"user\":\"bot\"}");
    const char *admin = harness_admin(&h);
    harness_core(&h, admin, "UpdateCredential",
                 "{\"metadata\":{\"name\":\"bot-key\"},\"spec\":{\"type\":\"AUTH_TOKEN\","
                 "\"user\":\"bot\",\"isDisabled\":true}}");
    harness_expect(&h, 0, "");
    log_in(token);
    harness_expect(&h, STATUS_UNAUTHENTICATED, "disabled");
    harness_core(&h, admin, "UpdateCredential",
                 "{\"metadata\":{\"name\":\"bot-key\"},\"spec\":{\"type\":\"AUTH_TOKEN\","
                 "\"user\":\"bot\"}}");
    harness_core(&h, admin, "UpdateUser",
                 "{\"metadata\":{\"name\":\"bot\"},\"spec\":{\"type\":\"WORKLOAD\","
                 "\"isDisabled\":true}}");
    harness_expect(&h, 0, "");
    log_in(token);
    harness_expect(&h, STATUS_UNAUTHENTICATED, "The User is disabled");
}
END_TEST

START_TEST(deleting_a_credential_ends_its_sessions)
{
    const char *token = credential_token("{\"type\":\"AUTH_TOKEN\",\"user\":\"bot\"}");
    const Auth__SessionToken *t = log_in(token);
    ck_assert_ptr_nonnull(t);
    harness_core(&h, harness_admin(&h), "DeleteCredential", "{\"name\":\"bot-key\"}");
    harness_expect(&h, 0, "");
    harness_call(&h, t->access_token, STATUS, "{}");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "");
}
END_TEST

START_TEST(an_access_token_credential_is_a_token_for_calls)
{
    const char *token = credential_token("{\"type\":\"ACCESS_TOKEN\",\"user\":\"bot\"}");
    harness_call(&h, token, STATUS, "{}");
    harness_expect(&h, 0, "");
    ck_assert_ptr_nonnull(strstr(harness_json(&h), "\"name\":\"bot\""));
}
END_TEST

START_TEST(an_expired_credential_opens_nothing)
{
    const char *token = credential_token(
        "{\"type\":\"AUTH_TOKEN\",\"user\":\"bot\",\"expiresAt\":\"2020-01-01T00:00:00Z\"}");
    log_in(token);
    harness_expect(&h, STATUS_UNAUTHENTICATED, "has expired");
}
END_TEST

START_TEST(a_workspaces_socket_is_its_session_whatever_it_sends)
{
    const char *admin = harness_admin(&h);
    ProtobufCMessage *user = NULL;
    ck_assert_int_eq(store_get_by_name(h.gateway.store, STORE_USER, "admin", &h.arena, &user, NULL),
                     0);
    Cordium__SessionExtInfo info = CORDIUM__SESSION_EXT_INFO__INIT;
    Meta__ObjectReference space = META__OBJECT_REFERENCE__INIT;
    char space_name[] = "sandboxes.cordium";
    space.name = space_name;
    info.space_ref = &space;
    Core__Session *session = NULL;
    int rc = session_open_for_workspace(&h.gateway, (const Core__User *)user, &info, &h.arena,
                                        &session, &h.err);
    ck_assert_msg(rc == 0, "%s", h.err.text);
    ck_assert_int_eq(session_class_of(session), SESSION_WORKSPACE);
    struct listener_identity identity;
    (void)snprintf(identity.session_uid, sizeof identity.session_uid, "%s", session->metadata->uid);
    h.listener = &identity;
    harness_call(&h, NULL, STATUS, "{}");
    harness_expect(&h, 0, "");
    ck_assert_ptr_nonnull(strstr(harness_json(&h), session->metadata->uid));
    /* Its owner is an administrator; code inside is not, not even with his token. */
    harness_core(&h, admin, "ListUser", "{}");
    harness_expect(&h, STATUS_PERMISSION_DENIED, "Session of a Workspace cannot administer");
    identity.session_uid[0] = 0;
    harness_call(&h, admin, STATUS, "{}");
    harness_expect(&h, STATUS_UNAUTHENTICATED, "no Session");
}
END_TEST

START_TEST(a_denial_for_sandboxes_reads_the_sessions_space)
{
    const char *admin = harness_admin(&h);
    harness_core(&h, admin, "CreatePolicy",
                 "{\"metadata\":{\"name\":\"deny-sandboxes\"},\"spec\":{\"rules\":[{"
                 "\"effect\":\"DENY\",\"condition\":{\"all\":{\"of\":["
                 "{\"match\":\"'ext' in ctx.session.status && 'cordium' in "
                 "ctx.session.status.ext\"},{\"match\":\"ctx.session.status.ext.cordium.spaceRef"
                 ".name == 'sandboxes.cordium'\"}]}}}]}}");
    harness_expect(&h, 0, "");
    harness_core(&h, admin, "UpdateClusterConfig",
                 "{\"metadata\":{\"name\":\"default\"},\"spec\":{\"authorization\":{\"policies\":"
                 "[\"deny-sandboxes\"]}}}");
    harness_expect(&h, 0, "");
    harness_call(&h, admin, STATUS, "{}");
    harness_expect(&h, 0, "");
    ProtobufCMessage *user = NULL;
    ck_assert_int_eq(store_get_by_name(h.gateway.store, STORE_USER, "admin", &h.arena, &user, NULL),
                     0);
    Cordium__SessionExtInfo info = CORDIUM__SESSION_EXT_INFO__INIT;
    Meta__ObjectReference space = META__OBJECT_REFERENCE__INIT;
    char space_name[] = "sandboxes.cordium";
    space.name = space_name;
    info.space_ref = &space;
    Core__Session *session = NULL;
    ck_assert_int_eq(session_open_for_workspace(&h.gateway, (const Core__User *)user, &info,
                                                &h.arena, &session, &h.err),
                     0);
    struct listener_identity identity;
    (void)snprintf(identity.session_uid, sizeof identity.session_uid, "%s", session->metadata->uid);
    h.listener = &identity;
    harness_call(&h, NULL, STATUS, "{}");
    harness_expect(&h, STATUS_PERMISSION_DENIED, "deny-sandboxes");
}
END_TEST

START_TEST(a_store_is_set_up_once_and_a_lost_admin_token_can_be_replaced)
{
    struct secret token;
    ck_assert_int_eq(bootstrap_store(&h.gateway, &token, &h.err), -STATUS_FAILED_PRECONDITION);
    ck_assert_int_eq(bootstrap_check(&h.gateway, &h.err), 0);
    ck_assert_int_eq(bootstrap_admin_token(&h.gateway, &token, &h.err), 0);
    log_in(h.admin_token);
    harness_expect(&h, STATUS_UNAUTHENTICATED, "");
    ck_assert_ptr_nonnull(log_in(token.text));
    secret_wipe(&token);
}
END_TEST

START_TEST(assertions_say_what_to_use_instead)
{
    harness_call(&h, NULL, AUTH "AuthenticateWithAssertion", "{\"assertion\":\"x\"}");
    harness_expect(&h, STATUS_UNIMPLEMENTED, "authentication token");
}
END_TEST

Suite *suite_auth(void);

Suite *suite_auth(void)
{
    Suite *suite = suite_create("auth");
    TCase *t = tcase_create("auth");
    tcase_set_timeout(t, 30);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_login_gives_tokens_that_the_sdk_accepts);
    tcase_add_test(t, calls_without_a_live_token_are_unauthenticated);
    tcase_add_test(t, an_access_token_comes_in_three_ways);
    tcase_add_test(t, an_unknown_authentication_token_is_unauthenticated);
    tcase_add_test(t, a_refresh_replaces_both_tokens);
    tcase_add_test(t, the_sixth_early_refresh_in_an_hour_is_already_exists);
    tcase_add_test(t, a_logout_ends_the_session);
    tcase_add_test(t, a_human_has_at_most_16_sessions);
    tcase_add_test(t, scopes_are_kept_and_checked);
    tcase_add_test(t, a_single_use_credential_opens_one_session_and_goes);
    tcase_add_test(t, a_new_token_of_a_credential_voids_the_one_before);
    tcase_add_test(t, a_disabled_credential_and_a_disabled_user_open_nothing);
    tcase_add_test(t, deleting_a_credential_ends_its_sessions);
    tcase_add_test(t, an_access_token_credential_is_a_token_for_calls);
    tcase_add_test(t, an_expired_credential_opens_nothing);
    tcase_add_test(t, a_workspaces_socket_is_its_session_whatever_it_sends);
    tcase_add_test(t, a_denial_for_sandboxes_reads_the_sessions_space);
    tcase_add_test(t, a_store_is_set_up_once_and_a_lost_admin_token_can_be_replaced);
    tcase_add_test(t, assertions_say_what_to_use_instead);
    suite_add_tcase(suite, t);
    return suite;
}
