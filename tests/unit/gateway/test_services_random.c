#include "tests/unit/gateway/request_harness.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/rpc/schema.h"

/* Requests of any shape, made from the schema: each must be answered, with whatever status, and
 * none may harm the process or be an internal error. The seed is fixed, so that a failure comes
 * again. */

enum { ROUNDS = 40, DEPTH_MAX = 7 };

static struct harness h;
static uint64_t state;

static void setup(void)
{
    harness_open(&h);
    state = 0x9e3779b97f4a7c15ULL;
}

static void teardown(void)
{
    harness_close(&h);
}

/* xorshift64*: good enough to choose fields with. */
static unsigned choose(unsigned n)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (unsigned)((state * 0x2545f4914f6cdd1dULL) >> 33) % n;
}

static const char *text(void)
{
    static const char *const texts[] = {"",
                                        "default",
                                        "ann",
                                        "admin",
                                        "a1",
                                        "tools",
                                        "tools.cordium",
                                        "py.tools.cordium",
                                        "ann.tools.cordium",
                                        "key",
                                        "x.y.z.w",
                                        "-",
                                        "https://h/p",
                                        "${{ vars.X }}",
                                        "10.0.0.0/8",
                                        "/data",
                                        "true",
                                        "allow-all",
                                        "cluster-admin",
                                        "no-such",
                                        "ops",
                                        "0f8fad5b-d9cb-469f-a165-70867728950e",
                                        "ctx.user.metadata.name == 'ann'",
                                        "1 +"};
    return texts[choose(sizeof texts / sizeof texts[0])];
}

static void fill(ProtobufCMessage *m, struct arena *arena, unsigned depth);

/* One value of a field at `at`. */
static void fill_value(const ProtobufCFieldDescriptor *f, void *at, struct arena *arena,
                       unsigned depth)
{
    switch ((int)f->type) {
    case PROTOBUF_C_TYPE_STRING:
        *(char **)at = arena_strdup(arena, text());
        break;
    case PROTOBUF_C_TYPE_MESSAGE: {
        ProtobufCMessage *child = codec_new(f->descriptor, arena);
        fill(child, arena, depth + 1);
        *(ProtobufCMessage **)at = child;
        break;
    }
    case PROTOBUF_C_TYPE_BOOL:
        *(protobuf_c_boolean *)at = (protobuf_c_boolean)choose(2);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        *(ProtobufCBinaryData *)at = (ProtobufCBinaryData){.len = 1, .data = (uint8_t *)"x"};
        break;
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32:
        *(uint32_t *)at = choose(5);
        break;
    default:
        break; /* 64-bit numbers and doubles stay 0 */
    }
}

static void fill(ProtobufCMessage *m, struct arena *arena, unsigned depth)
{
    for (unsigned i = 0; i < m->descriptor->n_fields && depth < DEPTH_MAX; i++) {
        const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
        void *at = (char *)m + f->offset;
        bool is_wanted = strcmp(f->name, "metadata") == 0 || strcmp(f->name, "spec") == 0
                             ? choose(8) > 0
                             : choose(2) > 0;
        if (!is_wanted) {
            continue;
        }
        if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
            uint32_t *which = (uint32_t *)(void *)((char *)m + f->quantifier_offset);
            if (*which == 0) {
                fill_value(f, at, arena, depth);
                bool is_value = f->type == PROTOBUF_C_TYPE_STRING ||
                                f->type == PROTOBUF_C_TYPE_MESSAGE ||
                                f->type == PROTOBUF_C_TYPE_BOOL;
                *which = is_value ? f->id : 0;
            }
        } else if (f->label == PROTOBUF_C_LABEL_REPEATED) {
            bool is_pointer =
                f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE;
            if (is_pointer) {
                void **list = arena_calloc(arena, 1, sizeof *list);
                fill_value(f, list, arena, depth);
                *(void ***)at = list;
                *(size_t *)(void *)((char *)m + f->quantifier_offset) = 1;
            }
        } else {
            fill_value(f, at, arena, depth);
        }
    }
}

/* Those that need no executor. */
static bool is_ours(const struct schema_method *m)
{
    static const char *const services[] = {"cordium.v1.MainService", "cordium.v1.ManagementService",
                                           "core.v1.MainService", "user.v1.MainService"};
    if (m->client_streams || m->server_streams || strstr(m->name, "BuildTemplate") ||
        (strstr(m->name, "Workspace") && !strstr(m->name, "Snapshot"))) {
        return false;
    }
    for (size_t i = 0; i < sizeof services / sizeof services[0]; i++) {
        if (strstr(m->service, services[i])) {
            return method_find(str_from(m->path)) != NULL;
        }
    }
    return false;
}

static void call_at_random(const struct schema_method *m, const char *token)
{
    struct arena arena;
    struct buf json;
    arena_init(&arena, 64 << 20);
    buf_init(&json, 1 << 22);
    ProtobufCMessage *message = codec_new(m->request->descriptor, &arena);
    fill(message, &arena, 0);
    if (codec_encode_json(message, &json, &h.err) == 0) {
        const char *copy = arena_strndup(&arena, (const char *)json.ptr, json.len);
        harness_call(&h, token, m->path, copy);
        ck_assert_msg(h.status != STATUS_INTERNAL && h.status != STATUS_UNKNOWN, "%s %s: %s",
                      m->path, copy, h.text);
    }
    buf_free(&json);
    arena_free(&arena);
}

START_TEST(requests_of_any_shape_are_answered)
{
    const char *tokens[2] = {harness_user(&h, "ann", "HUMAN"), harness_admin(&h)};
    harness_cordium(&h, tokens[0], "CreateSpace",
                    "{\"metadata\":{\"name\":\"tools.cordium\"},\"spec\":{}}");
    harness_expect(&h, 0, "");
    size_t count = 0;
    unsigned succeeded = 0;
    const struct schema_method *methods = schema_methods(&count);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < count; i++) {
            if (is_ours(&methods[i])) {
                call_at_random(&methods[i], tokens[round % 2]);
                succeeded += h.status == 0;
            }
        }
    }
    /* Else the test had tried nothing but refusals. */
    ck_assert_uint_gt(succeeded, 100);
}
END_TEST

START_TEST(requests_without_memory_are_refused_and_change_nothing)
{
    static const char *const requests[][2] = {
        {"cordium.v1.MainService/CreateTemplate",
         "{\"metadata\":{\"name\":\"py.tools.cordium\"},\"spec\":{\"runtime\":{\"envVars\":[{"
         "\"key\":\"A\",\"value\":\"1\"}]}}}"},
        {"cordium.v1.MainService/GetTemplate", "{\"name\":\"default\"}"},
        {"cordium.v1.MainService/CreateMembership",
         "{\"spaceRef\":{\"name\":\"tools.cordium\"},\"userRef\":{\"name\":\"admin\"}}"},
        {"cordium.v1.MainService/CreateUserSecret",
         "{\"metadata\":{\"name\":\"key\"},\"spec\":{\"type\":\"SSH_KEY\"}}"},
        {"cordium.v1.MainService/GetUserConfig", "{}"},
        {"cordium.v1.MainService/ListTemplate", "{}"},
        {"user.v1.MainService/GetStatus", "{}"},
    };
    const char *token = harness_user(&h, "ann", "HUMAN");
    harness_cordium(&h, token, "CreateSpace",
                    "{\"metadata\":{\"name\":\"tools.cordium\"},\"spec\":{}}");
    harness_expect(&h, 0, "");
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "/octelium.api.main.%s", requests[i][0]);
        unsigned refused = 0;
        h.status = 1;
        for (h.request_bytes_max = 256; h.status != 0; h.request_bytes_max += 256) {
            ck_assert_uint_lt(h.request_bytes_max, 4 << 20);
            harness_call(&h, token, path, requests[i][1]);
            refused += h.status != 0;
        }
        ck_assert_uint_gt(refused, 0);
    }
}
END_TEST

START_TEST(sparse_requests_are_answered)
{
    static const char *const sparse[] = {"{}", "{\"metadata\":{}}", "{\"spec\":{}}",
                                         "{\"metadata\":{},\"spec\":{}}",
                                         "{\"metadata\":{\"name\":\"a1\"},\"spec\":{}}"};
    const char *admin = harness_admin(&h);
    size_t count = 0;
    const struct schema_method *methods = schema_methods(&count);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; is_ours(&methods[i]) && j < sizeof sparse / sizeof sparse[0]; j++) {
            harness_call(&h, admin, methods[i].path, sparse[j]);
            ck_assert_msg(h.status != STATUS_INTERNAL && h.status != STATUS_UNKNOWN, "%s %s: %s",
                          methods[i].path, sparse[j], h.text);
        }
    }
}
END_TEST

Suite *suite_services_random(void);

Suite *suite_services_random(void)
{
    Suite *suite = suite_create("services_random");
    TCase *t = tcase_create("services_random");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, requests_of_any_shape_are_answered);
    tcase_add_test(t, requests_without_memory_are_refused_and_change_nothing);
    tcase_add_test(t, sparse_requests_are_answered);
    suite_add_tcase(suite, t);
    return suite;
}
