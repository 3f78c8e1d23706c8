#include "tests/unit/gateway/request_harness.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/auth.pb-c.h"
#include "gateway/authorize/authorize.h"
#include "gateway/authorize/policy_store.h"
#include "gateway/identity/bootstrap.h"
#include "gateway/identity/session.h"
#include "gateway/services/work_queue.h"

enum { HARNESS_REPLY_BYTES_MAX = 16 * 1024 * 1024 };

/* What the answer of one call is caught in; the protocol's functions find it behind the call. */
struct harness_pending {
    struct call call; /* first, see catch_message() */
    struct request *request;
    struct connection connection;
    struct header headers[2];
    struct buf bytes;
    int status;
    char text[ERROR_TEXT_MAX];
};

static void catch_message(struct call *call, uint8_t flags, struct str payload)
{
    (void)flags;
    buf_add_str(&((struct harness_pending *)(void *)call)->bytes, payload);
}

static void catch_end(struct call *call, int status, struct str message)
{
    struct harness_pending *c = (struct harness_pending *)(void *)call;
    c->status = status;
    (void)snprintf(c->text, sizeof c->text, "%.*s", STR_ARG(message));
}

static const struct call_protocol caught_protocol = {
    .name = "test", .send = catch_message, .finish = catch_end};

void harness_open(struct harness *h)
{
    *h = (struct harness){.folder = "/tmp/cordium-harness-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(h->folder));
    (void)snprintf(h->path, sizeof h->path, "%s/store.db", h->folder);
    arena_init(&h->arena, 256 << 20);
    h->request_bytes_max = 64 << 20;
    h->config.region = "default";
    h->config.domain = "localhost";
    h->config.state_dir = h->folder;
    h->gateway.config = &h->config;
    ck_assert_int_eq(uv_loop_init(&h->loop), 0);
    h->gateway.loop = &h->loop;
    ck_assert_int_eq(work_queue_new(&h->gateway, &h->gateway.work, &h->err), 0);
    ck_assert_msg(store_open(h->path, &h->gateway.store, &h->err) == 0, "%s", h->err.text);
    struct secret token;
    ck_assert_msg(bootstrap_store(&h->gateway, &token, &h->err) == 0, "%s", h->err.text);
    (void)snprintf(h->admin_token, sizeof h->admin_token, "%s", token.text);
    secret_wipe(&token);
    ck_assert_msg(policy_store_new(h->gateway.store, &h->gateway.policies, &h->err) == 0, "%s",
                  h->err.text);
    ck_assert_msg(policy_store_reload(h->gateway.policies, &h->err) == 0, "%s", h->err.text);
}

void harness_close(struct harness *h)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    ck_assert_int_eq(uv_run(&h->loop, UV_RUN_DEFAULT), 0);
    ck_assert_int_eq(uv_loop_close(&h->loop), 0);
    work_queue_free(h->gateway.work);
    policy_store_free(h->gateway.policies);
    store_close(h->gateway.store);
    for (size_t i = 0; i < 4; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s%s", h->path, suffixes[i]);
        (void)unlink(path);
    }
    ck_assert_int_eq(rmdir(h->folder), 0);
    arena_free(&h->arena);
}

static int run_stages(struct request *r, const char *json, struct error *err)
{
    int status = authenticate_request(r, err);
    ProtobufCMessage *message = NULL;
    if (!status) {
        status = codec_decode_json(r->method->schema->request->descriptor, str_from(json),
                                   CODEC_STRICT, &r->arena, &message, err);
    }
    if (status) {
        return status;
    }
    r->message = message;
    struct error resolved = {0};
    if (r->method->resolve) {
        (void)r->method->resolve(r, &resolved);
    }
    status = r->method->access == METHOD_PUBLIC ? 0 : authorize_request(r, err);
    if (!status && resolved.status) {
        *err = resolved;
        status = -resolved.status;
    }
    if (!status) {
        r->method->handle(r);
    }
    return status;
}

static struct harness_pending *begin(struct harness *h, const char *header, const char *token,
                                     const char *path, const char *json)
{
    struct harness_pending *c = calloc(1, sizeof *c);
    struct request *r = calloc(1, sizeof *r);
    ck_assert_ptr_nonnull(c);
    ck_assert_ptr_nonnull(r);
    buf_init(&c->bytes, HARNESS_REPLY_BYTES_MAX);
    c->call.connection = &c->connection;
    c->call.protocol = &caught_protocol;
    c->call.path = str_from(path);
    (void)snprintf(c->connection.origin.peer, sizeof c->connection.origin.peer, "192.0.2.7:4711");
    c->connection.origin.listener_owner = h->listener;
    c->headers[0] = (struct header){STR("user-agent"), STR("octelium-sdk-test/1")};
    c->headers[1] = (struct header){str_from(header), str_from(token)};
    c->call.request_headers =
        (struct header_list){.items = c->headers, .count = token ? 2 : 1, .room = 2};
    c->request = r;
    r->gateway = &h->gateway;
    r->call = &c->call;
    r->method = method_find(str_from(path));
    ck_assert_msg(r->method != NULL, "no method %s", path);
    r->is_routed = true;
    r->holds = 1;
    r->started_ns = gateway_monotonic_ns(&h->gateway);
    r->started_at_ns = gateway_wall_ns(&h->gateway);
    arena_init(&r->arena, h->request_bytes_max);
    struct error err = {0};
    if (run_stages(r, json, &err)) {
        request_fail(r, &err);
    }
    return c;
}

static void forget(struct harness_pending *c)
{
    buf_free(&c->bytes);
    request_release(c->request);
    arena_free(&c->call.arena);
    free(c);
}

int harness_end(struct harness *h, struct harness_pending *c)
{
    struct request *r = c->request;
    struct error err = {0};
    while (!r->is_answered && uv_run(&h->loop, UV_RUN_ONCE)) {
    }
    ck_assert_msg(r->is_answered, "%s gave no answer", r->method->schema->path);
    h->status = c->status;
    (void)snprintf(h->text, sizeof h->text, "%s", c->text);
    h->reply = NULL;
    h->outcome = arena_strndup(&h->arena, r->outcome_facts.ptr, r->outcome_facts.len);
    ck_assert_ptr_nonnull(h->outcome);
    if (c->status == 0) {
        ProtobufCMessage *reply = NULL;
        int status = codec_decode_wire(r->method->schema->response->descriptor, buf_str(&c->bytes),
                                       &h->arena, &reply, &err);
        ck_assert_msg(status == 0, "%s", err.text);
        h->reply = reply;
    }
    forget(c);
    return h->status;
}

void harness_abandon(struct harness *h, struct harness_pending *c)
{
    (void)h;
    c->request->is_gone = true;
    c->request->call = NULL;
    forget(c);
}

static int make_call(struct harness *h, const char *header, const char *token, const char *path,
                     const char *json)
{
    return harness_end(h, begin(h, header, token, path, json));
}

struct harness_pending *harness_begin(struct harness *h, const char *token, const char *path,
                                      const char *json)
{
    return begin(h, "x-octelium-auth", token, path, json);
}

int harness_call(struct harness *h, const char *token, const char *path, const char *json)
{
    return make_call(h, "x-octelium-auth", token, path, json);
}

int harness_call_refresh(struct harness *h, const char *refresh_token, const char *path)
{
    return make_call(h, "x-octelium-refresh-token", refresh_token, path, "{}");
}

int harness_call_header(struct harness *h, const char *header, const char *value, const char *path,
                        const char *json)
{
    return make_call(h, header, value, path, json);
}

int harness_cordium(struct harness *h, const char *token, const char *method, const char *json)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/octelium.api.main.cordium.v1.MainService/%s", method);
    return harness_call(h, token, path, json);
}

int harness_core(struct harness *h, const char *token, const char *method, const char *json)
{
    char path[128];
    (void)snprintf(path, sizeof path, "/octelium.api.main.core.v1.MainService/%s", method);
    return harness_call(h, token, path, json);
}

void harness_expect(const struct harness *h, int status, const char *part)
{
    ck_assert_msg(h->status == status, "%s: %s", status_name(h->status), h->text);
    ck_assert_msg(strstr(h->text, part) != NULL, "'%s' is not in '%s'", part, h->text);
}

const char *harness_json(struct harness *h)
{
    struct buf out;
    buf_init(&out, HARNESS_REPLY_BYTES_MAX);
    ck_assert_ptr_nonnull(h->reply);
    ck_assert_int_eq(codec_encode_json(h->reply, &out, &h->err), 0);
    const char *json = arena_strndup(&h->arena, (const char *)out.ptr, out.len);
    buf_free(&out);
    return json;
}

const char *harness_admin(struct harness *h)
{
    const char *json = arena_printf(&h->arena, "{\"authenticationToken\":\"%s\"}", h->admin_token);
    harness_call(h, NULL,
                 "/octelium.api.main.auth.v1.MainService/AuthenticateWithAuthenticationToken",
                 json);
    ck_assert_msg(h->status == 0, "%s", h->text);
    return ((const Auth__SessionToken *)h->reply)->access_token;
}

const char *harness_user(struct harness *h, const char *name, const char *type)
{
    const char *admin = harness_admin(h);
    harness_core(h, admin, "CreateUser",
                 arena_printf(&h->arena,
                              "{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"type\":\"%s\","
                              "\"email\":\"%s@example.test\"}}",
                              name, type, name));
    ck_assert_msg(h->status == 0, "%s", h->text);
    struct session_login login = {.user = (const Core__User *)h->reply, .peer = "192.0.2.7:1"};
    struct session_tokens tokens;
    Core__Session *session = NULL;
    int status = session_open(&h->gateway, &login, &h->arena, &session, &tokens, &h->err);
    ck_assert_msg(status == 0, "%s", h->err.text);
    return arena_strdup(&h->arena, tokens.access.text);
}
