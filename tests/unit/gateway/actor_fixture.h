#ifndef TESTS_ACTOR_FIXTURE_H
#define TESTS_ACTOR_FIXTURE_H

/* A gateway with a store in a folder of its own, and one request by "ann", for the tests of
 * authorization and audit. Nothing listens: the call is a struct filled by hand. */

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/cordium.pb-c.h"
#include "api/core.pb-c.h"
#include "gateway/authorize/policy_store.h"
#include "gateway/config.h"
#include "gateway/edge/call_internal.h"
#include "gateway/edge/connection.h"
#include "gateway/gateway.h"
#include "gateway/request.h"
#include "gateway/rpc/codec.h"
#include "gateway/state/resource.h"
#include "gateway/state/store.h"

#define FIXTURE_NOW_NS (1790000000LL * 1000000000)

struct actor_fixture {
    char folder[64];
    char path[96];
    struct arena arena;
    struct gateway_config config;
    struct gateway gateway;
    struct error err;
    struct connection connection;
    struct call call;
    struct header headers[8];
    struct method method;
    struct request request;
};

static inline void fixture_open(struct actor_fixture *f)
{
    *f = (struct actor_fixture){.folder = "/tmp/cordium-actor-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(f->folder));
    (void)snprintf(f->path, sizeof f->path, "%s/store.db", f->folder);
    arena_init(&f->arena, 64 << 20);
    f->config.region = "default";
    f->gateway.config = &f->config;
    ck_assert_msg(store_open(f->path, &f->gateway.store, &f->err) == 0, "%s", f->err.text);
    ck_assert_msg(policy_store_new(f->gateway.store, &f->gateway.policies, &f->err) == 0, "%s",
                  f->err.text);
    ck_assert_msg(policy_store_reload(f->gateway.policies, &f->err) == 0, "%s", f->err.text);
}

static inline void fixture_close(struct actor_fixture *f)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    policy_store_free(f->gateway.policies);
    store_close(f->gateway.store);
    for (size_t i = 0; i < 4; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s%s", f->path, suffixes[i]);
        (void)unlink(path);
    }
    ck_assert_int_eq(rmdir(f->folder), 0);
    arena_free(&f->request.arena);
    arena_free(&f->arena);
}

/* A message from its JSON, strictly. */
static inline ProtobufCMessage *fixture_message(struct actor_fixture *f,
                                                const ProtobufCMessageDescriptor *descriptor,
                                                const char *json)
{
    ProtobufCMessage *m = NULL;
    int rc = codec_decode_json(descriptor, str_from(json), CODEC_STRICT, &f->arena, &m, &f->err);
    ck_assert_msg(rc == 0, "%s", f->err.text);
    return m;
}

static inline void fixture_header(struct actor_fixture *f, const char *name, const char *value)
{
    ck_assert_uint_lt(f->call.request_headers.count, 8);
    f->call.request_headers.items = f->headers;
    f->headers[f->call.request_headers.count++] = (struct header){str_from(name), str_from(value)};
}

/* The request: a live session of the user "ann", from 192.0.2.7, for one method of the API. */
static inline struct request *fixture_request(struct actor_fixture *f, const char *path)
{
    struct request *r = &f->request;
    f->method = (struct method){.schema = schema_method_find(str_from(path)),
                                .access = METHOD_SESSION,
                                .audit = METHOD_AUDIT_WRITE};
    ck_assert_ptr_nonnull(f->method.schema);
    (void)snprintf(f->connection.origin.peer, sizeof f->connection.origin.peer, "192.0.2.7:4711");
    f->connection.origin.is_tls = true;
    f->call.connection = &f->connection;
    f->call.protocol = &grpc_protocol;
    f->call.path = str_from(path);
    arena_free(&r->arena);
    *r = (struct request){.gateway = &f->gateway,
                          .call = &f->call,
                          .method = &f->method,
                          .is_routed = true,
                          .started_at_ns = FIXTURE_NOW_NS,
                          .id = "0123456789abcdef0123456789abcdef"};
    arena_init(&r->arena, 4 << 20);
    r->actor.user = (Core__User *)fixture_message(
        f, &core__user__descriptor,
        "{\"apiVersion\": \"core/v1\", \"kind\": \"User\", \"metadata\": {\"name\": \"ann\","
        " \"uid\": \"11111111-1111-4111-8111-111111111111\", \"resourceVersion\": \"v1\"},"
        " \"spec\": {\"type\": \"WORKLOAD\", \"groups\": [\"dev\"],"
        " \"authorization\": {\"policies\": [\"allow-all\"]}}}");
    r->actor.session = (Core__Session *)fixture_message(
        f, &core__session__descriptor,
        "{\"apiVersion\": \"core/v1\", \"kind\": \"Session\", \"metadata\": {\"name\": \"s1\","
        " \"uid\": \"22222222-2222-4222-8222-222222222222\", \"resourceVersion\": \"v1\"},"
        " \"spec\": {\"state\": \"ACTIVE\", \"expiresAt\": \"2030-01-01T00:00:00Z\"},"
        " \"status\": {\"type\": \"CLIENT\", \"totalAuthentications\": 3}}");
    return r;
}

#endif
