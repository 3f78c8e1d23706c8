#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/cordium.pb-c.h"
#include "api/core.pb-c.h"
#include "api/schema_index.h"
#include "gateway/rpc/codec.h"
#include "google/protobuf/struct.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"

Suite *suite_codec(void);

static const ProtobufCMessageDescriptor *const space = &cordium__space__descriptor;
static const ProtobufCMessageDescriptor *const workspace = &cordium__workspace__descriptor;
static const ProtobufCMessageDescriptor *const policy = &core__policy__descriptor;
static const ProtobufCMessageDescriptor *const secret = &cordium__secret__descriptor;

struct fixture {
    struct arena arena;
    struct buf out;
    struct error err;
};

static void fixture_init(struct fixture *f)
{
    arena_init(&f->arena, 16 << 20);
    buf_init(&f->out, 16 << 20);
    f->err = (struct error){0};
}

static void fixture_free(struct fixture *f)
{
    arena_free(&f->arena);
    buf_free(&f->out);
}

static ProtobufCMessage *from_json(struct fixture *f, const ProtobufCMessageDescriptor *d,
                                   const char *json)
{
    ProtobufCMessage *m = NULL;
    f->err = (struct error){0};
    int status = codec_decode_json(d, str_from(json), CODEC_STRICT, &f->arena, &m, &f->err);
    ck_assert_int_eq(status, -f->err.status);
    return m;
}

static ProtobufCMessage *from_yaml(struct fixture *f, const ProtobufCMessageDescriptor *d,
                                   const char *yaml)
{
    ProtobufCMessage *m = NULL;
    f->err = (struct error){0};
    int status = codec_decode_yaml(d, str_from(yaml), CODEC_STRICT, &f->arena, &m, &f->err);
    ck_assert_int_eq(status, -f->err.status);
    return m;
}

static ProtobufCMessage *from_wire(struct fixture *f, const ProtobufCMessageDescriptor *d,
                                   const void *bytes, size_t len)
{
    ProtobufCMessage *m = NULL;
    f->err = (struct error){0};
    int status = codec_decode_wire(d, str_make(bytes, len), &f->arena, &m, &f->err);
    ck_assert_int_eq(status, -f->err.status);
    return m;
}

/* The JSON of a message, in the fixture's buffer. */
static const char *to_json(struct fixture *f, const ProtobufCMessage *m)
{
    buf_clear(&f->out);
    ck_assert_int_eq(codec_encode_json(m, &f->out, &f->err), 0);
    buf_add_u8(&f->out, 0);
    return (const char *)f->out.ptr;
}

static const char *to_yaml(struct fixture *f, const ProtobufCMessage *m)
{
    buf_clear(&f->out);
    ck_assert_int_eq(codec_encode_yaml(m, &f->out, &f->err), 0);
    buf_add_u8(&f->out, 0);
    return (const char *)f->out.ptr;
}

#define assert_refused(f, message, status_code, part)                                              \
    do {                                                                                           \
        ck_assert_ptr_null(message);                                                               \
        ck_assert_int_eq((f)->err.status, status_code);                                            \
        ck_assert_msg(strstr((f)->err.text, part), "'%s' lacks '%s'", (f)->err.text, part);        \
    } while (0)

START_TEST(json_round_trip_keeps_a_workspace)
{
    static const char json[] =
        "{\"apiVersion\":\"cordium/"
        "v1\",\"kind\":\"Workspace\",\"metadata\":{\"uid\":\"u\",\"name\":"
        "\"abc\",\"createdAt\":\"2026-01-31T12:30:00.250Z\",\"labels\":{\"a\":\"1\",\"b\":\"\"},"
        "\"picURL\":\"https://x/\"},\"spec\":{\"runtime\":{\"envVars\":[{\"key\":\"A\",\"value\":"
        "\"\"}],\"tasks\":[{\"run\":\"true\",\"type\":\"POST_START\"}],\"network\":{\"egress\":"
        "{\"rules\":[{\"cidrs\":[\"10.0.0.0/8\"],\"action\":\"ALLOW\",\"ports\":[80,443]}],"
        "\"defaultAction\":\"DENY\"}}},\"limit\":{\"storage\":{\"megabytes\":4000}},"
        "\"isEphemeral\":true},\"status\":{\"state\":\"RUNNING\",\"failure\":{\"message\":\"m\","
        "\"imageBuild\":{}}}}";
    struct fixture f;
    fixture_init(&f);
    ProtobufCMessage *m = from_json(&f, workspace, json);
    ck_assert_msg(m != NULL, "%s", f.err.text);
    ck_assert_str_eq(to_json(&f, m), json);

    buf_clear(&f.out);
    ck_assert_int_eq(codec_encode_wire(m, &f.out, &f.err), 0);
    ProtobufCMessage *again = from_wire(&f, workspace, f.out.ptr, f.out.len);
    ck_assert(codec_equal(m, again));
    ck_assert_str_eq(to_json(&f, again), json);

    ProtobufCMessage *yaml = from_yaml(&f, workspace, to_yaml(&f, m));
    ck_assert_msg(yaml != NULL, "%s", f.err.text);
    ck_assert(codec_equal(m, yaml));
    fixture_free(&f);
}
END_TEST

START_TEST(json_takes_all_spellings_of_a_name)
{
    struct fixture f;
    fixture_init(&f);
    static const char *const texts[] = {
        "{\"spec\":{\"authorization\":{\"disableSSH\":true}}}",
        "{\"spec\":{\"authorization\":{\"disableSsh\":true}}}",
        "{\"spec\":{\"authorization\":{\"disable_ssh\":true}}}",
    };
    for (size_t i = 0; i < 3; i++) {
        Cordium__Space *s = (Cordium__Space *)from_json(&f, space, texts[i]);
        ck_assert_msg(s != NULL, "%s", f.err.text);
        ck_assert(s->spec->authorization->disable_ssh);
        ck_assert_str_eq(to_json(&f, &s->base), texts[0]);
    }
    assert_refused(&f,
                   from_json(&f, space,
                             "{\"spec\":{\"authorization\":{\"disableSSH\":true,"
                             "\"disable_ssh\":false}}}"),
                   STATUS_INVALID_ARGUMENT, "two names");
    fixture_free(&f);
}
END_TEST

START_TEST(json_unknown_field_is_named_with_its_place)
{
    struct fixture f;
    fixture_init(&f);
    static const char text[] = "{\n  \"spec\": {\n    \"authorisation\": {}\n  }\n}";
    assert_refused(&f, from_json(&f, space, text), STATUS_INVALID_ARGUMENT,
                   "spec: unknown field 'authorisation'; did you mean 'authorization'?");
    ck_assert_uint_eq(f.err.line, 3);
    ck_assert_uint_eq(f.err.column, 5);
    ProtobufCMessage *m = NULL;
    ck_assert_int_eq(codec_decode_json(space, str_from(text), CODEC_LENIENT, &f.arena, &m, &f.err),
                     0);
    ck_assert_str_eq(to_json(&f, m), "{\"spec\":{}}");
    fixture_free(&f);
}
END_TEST

START_TEST(json_wrong_values_are_refused_with_their_path)
{
    static const struct {
        const char *json;
        const char *part;
    } cases[] = {
        {"[]", "expected an object, not a list"},
        {"{\"kind\":1}", "kind: expected text, not '1'"},
        {"{\"spec\":{\"limit\":{\"cpu\":{\"millicores\":-1}}}}",
         "spec.limit.cpu.millicores: expected a whole number of 32 bits, not negative, not '-1'"},
        {"{\"spec\":{\"limit\":{\"cpu\":{\"millicores\":4294967296}}}}", "millicores"},
        {"{\"spec\":{\"limit\":{\"cpu\":{\"millicores\":1.5}}}}", "millicores"},
        {"{\"spec\":{\"isEphemeral\":\"true\"}}", "expected true or false"},
        {"{\"spec\":{\"vars\":[{\"name\":\"a\"},{\"name\":[]}]}}",
         "spec.vars[1].name: expected text"},
        {"{\"spec\":{\"vars\":[null]}}", "spec.vars[0]"},
        {"{\"spec\":{\"vars\":{}}}", "expected a list"},
        {"{\"metadata\":{\"labels\":{\"a\":null}}}", "metadata.labels.a"},
        {"{\"metadata\":{\"labels\":[]}}", "expected an object"},
        {"{\"metadata\":{\"createdAt\":\"2026-02-29T00:00:00Z\"}}", "expected a time"},
        {"{\"metadata\":{\"createdAt\":\"2026-02-28 00:00:00Z\"}}", "expected a time"},
        {"{\"status\":{\"state\":\"RUNING\"}}", "did you mean 'RUNNING'?"},
        {"{\"spec\":{\"image\":{\"registry\":{},\"git\":{}}}}",
         "only one of 'registry' and 'git' may be set"},
    };
    struct fixture f;
    fixture_init(&f);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_refused(&f, from_json(&f, workspace, cases[i].json), STATUS_INVALID_ARGUMENT,
                       cases[i].part);
    }
    fixture_free(&f);
}
END_TEST

START_TEST(json_takes_numbers_as_protobuf_does)
{
    struct fixture f;
    fixture_init(&f);
    static const char *const texts[] = {"1000", "\"1000\"", "1e3", "1000.0", "10.00e2"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char json[128];
        (void)snprintf(json, sizeof(json), "{\"spec\":{\"limit\":{\"cpu\":{\"millicores\":%s}}}}",
                       texts[i]);
        Cordium__Workspace *w = (Cordium__Workspace *)from_json(&f, workspace, json);
        ck_assert_msg(w != NULL, "%s: %s", json, f.err.text);
        ck_assert_uint_eq(w->spec->limit->cpu->millicores, 1000);
    }
    ProtobufCMessage *m = from_json(&f, &cordium__workspace_snapshot__descriptor,
                                    "{\"status\":{\"restoreSizeBytes\":\"18446744073709551615\"}}");
    ck_assert_str_eq(to_json(&f, m),
                     "{\"status\":{\"restoreSizeBytes\":\"18446744073709551615\"}}");
    m = from_json(&f, &cordium__workspace_snapshot__descriptor,
                  "{\"status\":{\"restoreSizeBytes\":9007199254740993,\"state\":77}}");
    ck_assert_str_eq(to_json(&f, m),
                     "{\"status\":{\"state\":77,\"restoreSizeBytes\":\"9007199254740993\"}}");
    fixture_free(&f);
}
END_TEST

START_TEST(json_bytes_are_base64_of_either_alphabet)
{
    struct fixture f;
    fixture_init(&f);
    static const char *const good[] = {"-_8=", "+/8=", "-_8", "+/8"};
    for (size_t i = 0; i < 4; i++) {
        char json[64];
        (void)snprintf(json, sizeof(json), "{\"data\":{\"valueBytes\":\"%s\"}}", good[i]);
        ProtobufCMessage *m = from_json(&f, secret, json);
        ck_assert_msg(m != NULL, "%s", f.err.text);
        ck_assert_str_eq(to_json(&f, m), "{\"data\":{\"valueBytes\":\"+/8=\"}}");
    }
    static const char *const bad[] = {"a", "a===", "ab=", "a b=", "ab==c", "abc=="};
    for (size_t i = 0; i < 6; i++) {
        char json[64];
        (void)snprintf(json, sizeof(json), "{\"data\":{\"valueBytes\":\"%s\"}}", bad[i]);
        assert_refused(&f, from_json(&f, secret, json), STATUS_INVALID_ARGUMENT, "base64");
    }
    /* A oneof member that is set to nothing is still set. */
    ck_assert_str_eq(to_json(&f, from_json(&f, secret, "{\"data\":{\"valueBytes\":\"\"}}")),
                     "{\"data\":{\"valueBytes\":\"\"}}");
    fixture_free(&f);
}
END_TEST

START_TEST(json_struct_is_natural_json)
{
    static const char json[] = "{\"spec\":{\"attrs\":{\"n\":null,\"i\":3,\"d\":0.1,\"t\":\"x\","
                               "\"b\":false,\"l\":[1,[],{}]}}}";
    struct fixture f;
    fixture_init(&f);
    ProtobufCMessage *m = from_json(&f, policy, json);
    ck_assert_msg(m != NULL, "%s", f.err.text);
    ck_assert_str_eq(to_json(&f, m), json);
    ck_assert(codec_equal(m, codec_copy(m, &f.arena)));
    ProtobufCMessage *again = from_yaml(&f, policy, to_yaml(&f, m));
    ck_assert_msg(again != NULL, "%s", f.err.text);
    ck_assert(codec_equal(m, again));
    fixture_free(&f);
}
END_TEST

START_TEST(what_json_accepts_the_wire_reads_again)
{
    struct fixture f;
    fixture_init(&f);
    for (int depth = 1; depth < 60; depth++) {
        char json[512] = "{\"spec\":{\"attrs\":{\"a\":";
        for (int i = 0; i < depth; i++) {
            strncat(json, "[", sizeof(json) - strlen(json) - 1);
        }
        for (int i = 0; i < depth; i++) {
            strncat(json, "]", sizeof(json) - strlen(json) - 1);
        }
        strncat(json, "}}}", sizeof(json) - strlen(json) - 1);
        ProtobufCMessage *m = from_json(&f, policy, json);
        if (!m) {
            ck_assert_int_gt(depth, 30);
            continue;
        }
        buf_clear(&f.out);
        ck_assert_int_eq(codec_encode_wire(m, &f.out, &f.err), 0);
        ck_assert_ptr_nonnull(from_wire(&f, policy, f.out.ptr, f.out.len));
    }
    fixture_free(&f);
}
END_TEST

START_TEST(timestamps_keep_every_second_of_their_range)
{
    static const char *const same[] = {
        "0001-01-01T00:00:00Z",           "9999-12-31T23:59:59.999999999Z",
        "1970-01-01T00:00:00.000001Z",    "1969-12-31T23:59:59.500Z",
        "2000-02-29T12:00:00Z",           "1600-02-29T00:00:00Z",
        "1900-03-01T00:00:00.000000001Z",
    };
    struct fixture f;
    fixture_init(&f);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        char json[128];
        (void)snprintf(json, sizeof(json), "{\"metadata\":{\"createdAt\":\"%s\"}}", same[i]);
        ProtobufCMessage *m = from_json(&f, space, json);
        ck_assert_msg(m != NULL, "%s", f.err.text);
        ck_assert_str_eq(to_json(&f, m), json);
    }
    ProtobufCMessage *m =
        from_json(&f, space, "{\"metadata\":{\"createdAt\":\"2026-01-01T01:30:00+02:00\"}}");
    ck_assert_str_eq(to_json(&f, m), "{\"metadata\":{\"createdAt\":\"2025-12-31T23:30:00Z\"}}");
    assert_refused(
        &f, from_json(&f, space, "{\"metadata\":{\"createdAt\":\"0001-01-01T00:00:00+00:01\"}}"),
        STATUS_INVALID_ARGUMENT, "expected a time");
    fixture_free(&f);
}
END_TEST

START_TEST(wire_refuses_what_protobuf_c_would_take)
{
    struct fixture f;
    fixture_init(&f);
    assert_refused(&f,
                   from_wire(&f, space,
                             "\x12\x03"
                             "a\0b",
                             5),
                   STATUS_INVALID_ARGUMENT, "NUL");
    assert_refused(&f, from_wire(&f, space, "\x12\x02\xc3\x28", 4), STATUS_INVALID_ARGUMENT,
                   "Space.kind is not valid UTF-8");
    assert_refused(&f,
                   from_wire(&f, space,
                             "\x12\x05"
                             "ab",
                             4),
                   STATUS_INVALID_ARGUMENT, "cut");
    assert_refused(&f, from_wire(&f, space, "\x13", 1), STATUS_INVALID_ARGUMENT, "groups");
    assert_refused(&f, from_wire(&f, space, "\x02\x00", 2), STATUS_INVALID_ARGUMENT, "tag");
    assert_refused(&f, from_wire(&f, space, "\x10\x01", 2), STATUS_INVALID_ARGUMENT, "wrong type");
    ck_assert_ptr_nonnull(from_wire(&f, space, "", 0));
    fixture_free(&f);
}
END_TEST

START_TEST(wire_depth_is_bounded)
{
    struct fixture f;
    fixture_init(&f);
    /* Conditions in each other: any.of[0].any.of[0]… from the inside out. */
    uint8_t bytes[4096];
    size_t len = 0;
    size_t accepted = 0;
    for (unsigned depth = 1; depth <= 400; depth++) {
        bool is_list = depth % 2 == 1; /* Any.of = 1, Condition.any = 4 */
        size_t header = len < 128 ? 2 : 3;
        memmove(bytes + header, bytes, len);
        bytes[0] = is_list ? 0x0a : 0x22;
        bytes[1] = (uint8_t)(len < 128 ? len : (len & 0x7f) | 0x80);
        if (header == 3) {
            bytes[2] = (uint8_t)(len >> 7);
        }
        len += header;
        if (!is_list && from_wire(&f, &core__condition__descriptor, bytes, len)) {
            accepted = depth;
        }
    }
    ck_assert_uint_eq(accepted, 98); /* the outermost and 98 inside it, two at a time */
    ck_assert(strstr(f.err.text, "nested too deeply"));
    fixture_free(&f);
}
END_TEST

START_TEST(wire_memory_and_fields_are_bounded)
{
    struct fixture f;
    fixture_init(&f);
    size_t len = 2 * 200000;
    uint8_t *bytes = malloc(len);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < len; i += 2) { /* WorkspaceList.items, empty */
        bytes[i] = 0x1a;
        bytes[i + 1] = 0;
    }
    assert_refused(&f, from_wire(&f, &cordium__workspace_list__descriptor, bytes, len),
                   STATUS_INVALID_ARGUMENT, "too many fields");
    struct arena small;
    arena_init(&small, 256 * 1024);
    ProtobufCMessage *m = NULL;
    ck_assert_int_eq(codec_decode_wire(&cordium__workspace_list__descriptor,
                                       str_make(bytes, 100000), &small, &m, &f.err),
                     -STATUS_RESOURCE_EXHAUSTED);
    arena_free(&small);
    free(bytes);
    fixture_free(&f);
}
END_TEST

START_TEST(wire_drops_unknown_fields_and_keeps_the_last_of_equal_keys)
{
    struct fixture f;
    fixture_init(&f);
    /* Metadata: name "x", unknown 100 = 1, labels a=1, b=2, a=3 */
    static const char bytes[] = "\x12\x01x\xa0\x06\x01"
                                "\x3a\x06\x0a\x01"
                                "a\x12\x01"
                                "1"
                                "\x3a\x06\x0a\x01"
                                "b\x12\x01"
                                "2"
                                "\x3a\x06\x0a\x01"
                                "a\x12\x01"
                                "3";
    ProtobufCMessage *m = from_wire(&f, &meta__metadata__descriptor, bytes, sizeof(bytes) - 1);
    ck_assert_msg(m != NULL, "%s", f.err.text);
    ck_assert_str_eq(to_json(&f, m), "{\"name\":\"x\",\"labels\":{\"b\":\"2\",\"a\":\"3\"}}");
    buf_clear(&f.out);
    ck_assert_int_eq(codec_encode_wire(m, &f.out, &f.err), 0);
    ck_assert_uint_eq(f.out.len, 3 + 2 * 8);
    /* A map entry without a value has the empty message. */
    m = from_wire(&f, &core__user__status__descriptor, "\x0a\x03\x0a\x01k", 5);
    ck_assert_str_eq(to_json(&f, m), "{\"ext\":{\"k\":{}}}");
    fixture_free(&f);
}
END_TEST

START_TEST(text_that_was_cut_within_a_character_is_mended_on_its_way_out)
{
    struct fixture f;
    fixture_init(&f);
    Meta__Metadata m = META__METADATA__INIT;
    char cut[] = "/\xc3\xa9\xe2\x82";
    char whole[] = "\xe2\x82\xac";
    m.name = cut;
    m.description = whole;
    ck_assert_int_eq(codec_encode_wire(&m.base, &f.out, &f.err), 0);
    ck_assert_ptr_null(from_wire(&f, &meta__metadata__descriptor, f.out.ptr, f.out.len));
    /* What was kept is read whatever it is, and told as text. */
    ProtobufCMessage *kept;
    ck_assert_int_eq(
        codec_decode_stored(&meta__metadata__descriptor, buf_str(&f.out), &f.arena, &kept, &f.err),
        0);
    buf_clear(&f.out);
    buf_add_cstr(&f.out, "\xc3"); /* not the message's */
    ck_assert_int_eq(codec_encode_wire_mended(kept, &f.out, &f.err), 0);
    ck_assert_uint_eq(f.out.ptr[0], 0xc3);
    const Meta__Metadata *mended = (const Meta__Metadata *)from_wire(
        &f, &meta__metadata__descriptor, f.out.ptr + 1, f.out.len - 1);
    ck_assert_ptr_nonnull(mended);
    ck_assert_str_eq(mended->name, "/\xc3\xa9??");
    ck_assert_str_eq(mended->description, whole);
    fixture_free(&f);
}
END_TEST

START_TEST(yaml_policy_file_is_read_by_the_schema)
{
    static const char yaml[] = "kind: Policy\n"
                               "metadata:\n"
                               "  name: deny-sandboxes\n"
                               "  labels: {version: 1.10, on: no, big: 9223372036854775808}\n"
                               "spec:\n"
                               "  rules:\n"
                               "    - effect: DENY\n"
                               "      priority: -1\n"
                               "      condition:\n"
                               "        all:\n"
                               "          of:\n"
                               "            - match: '\"ext\" in ctx.session.status'\n"
                               "            - match: ctx.session.status.ext.cordium.spaceRef.name "
                               "== \"sandboxes.cordium\"\n"
                               "            - not: |\n"
                               "                ctx.user.spec.type == \"HUMAN\"\n"
                               "                  || false\n";
    struct fixture f;
    fixture_init(&f);
    Core__Policy *p = (Core__Policy *)from_yaml(&f, policy, yaml);
    ck_assert_msg(p != NULL, "%s", f.err.text);
    ck_assert_str_eq(p->metadata->labels[0]->value, "1.10");
    ck_assert_str_eq(p->metadata->labels[1]->key, "on");
    ck_assert_str_eq(p->metadata->labels[1]->value, "no");
    ck_assert_str_eq(p->metadata->labels[2]->value, "9223372036854775808");
    Core__Policy__Spec__Rule *rule = p->spec->rules[0];
    ck_assert_int_eq(rule->effect, CORE__POLICY__SPEC__RULE__EFFECT__DENY);
    ck_assert_int_eq(rule->priority, -1);
    ck_assert_uint_eq(rule->condition->all->n_of, 3);
    ck_assert_str_eq(rule->condition->all->of[0]->match, "\"ext\" in ctx.session.status");
    ck_assert_str_eq(rule->condition->all->of[2]->not_,
                     "ctx.user.spec.type == \"HUMAN\"\n  || false\n");
    ProtobufCMessage *again = from_yaml(&f, policy, to_yaml(&f, &p->base));
    ck_assert_msg(again != NULL, "%s\n%s", f.err.text, (const char *)f.out.ptr);
    ck_assert(codec_equal(&p->base, again));
    fixture_free(&f);
}
END_TEST

START_TEST(yaml_is_written_as_people_write_it)
{
    struct fixture f;
    fixture_init(&f);
    ProtobufCMessage *m = from_json(
        &f, workspace,
        "{\"metadata\":{\"name\":\"abc\",\"labels\":{\"a b\":\"yes\"},\"createdAt\":"
        "\"2026-01-31T00:00:00Z\"},\"spec\":{\"image\":{\"dockerfile\":{\"inline\":"
        "\"FROM python:3.13-slim\\nRUN true\\n\"}},\"runtime\":{\"tasks\":[{\"name\":\"t\",\"run\":"
        "\"echo 'x: "
        "y'\",\"envVars\":[{\"key\":\"A\",\"value\":\"0777\"}]}],\"capabilities\":{\"drop\":"
        "[\"NET_RAW\"]},\"filesystem\":{}}}}");
    ck_assert_str_eq(to_yaml(&f, m), "metadata:\n"
                                     "  name: abc\n"
                                     "  createdAt: \"2026-01-31T00:00:00Z\"\n"
                                     "  labels:\n"
                                     "    a b: \"yes\"\n"
                                     "spec:\n"
                                     "  image:\n"
                                     "    dockerfile:\n"
                                     "      inline: |\n"
                                     "        FROM python:3.13-slim\n"
                                     "        RUN true\n"
                                     "  runtime:\n"
                                     "    tasks:\n"
                                     "      - name: t\n"
                                     "        run: \"echo 'x: y'\"\n"
                                     "        envVars:\n"
                                     "          - key: A\n"
                                     "            value: \"0777\"\n"
                                     "    filesystem: {}\n"
                                     "    capabilities:\n"
                                     "      drop:\n"
                                     "        - NET_RAW\n");
    fixture_free(&f);
}
END_TEST

START_TEST(text_of_too_deep_a_message_is_an_error)
{
    struct fixture f;
    fixture_init(&f);
    Core__Condition *inner = CODEC_NEW(&f.arena, Core__Condition, core__condition);
    for (int i = 0; i < 45; i++) {
        Core__Condition__Any *any = CODEC_NEW(&f.arena, Core__Condition__Any, core__condition__any);
        any->n_of = 1;
        any->of = arena_alloc(&f.arena, sizeof(any->of[0]));
        any->of[0] = inner;
        inner = CODEC_NEW(&f.arena, Core__Condition, core__condition);
        inner->type_case = CORE__CONDITION__TYPE_ANY;
        inner->any = any;
    }
    ck_assert_int_eq(codec_encode_json(&inner->base, &f.out, &f.err), -STATUS_RESOURCE_EXHAUSTED);
    ck_assert_int_eq(codec_encode_yaml(&inner->base, &f.out, &f.err), -STATUS_RESOURCE_EXHAUSTED);
    fixture_free(&f);
}
END_TEST

START_TEST(merge_is_protobufs_merge)
{
    struct fixture f;
    fixture_init(&f);
    ProtobufCMessage *dst = from_json(
        &f, workspace,
        "{\"metadata\":{\"labels\":{\"a\":\"1\",\"b\":\"2\"}},\"spec\":{\"image\":{\"registry\":"
        "{\"url\":\"x\",\"authentication\":{\"username\":\"u\"}}},\"vars\":[{\"name\":\"a\"}],"
        "\"limit\":{\"cpu\":{\"millicores\":1}},\"isEphemeral\":true}}");
    ProtobufCMessage *src = from_json(
        &f, workspace,
        "{\"metadata\":{\"labels\":{\"b\":\"3\",\"c\":\"4\"}},\"spec\":{\"image\":{\"registry\":"
        "{\"url\":\"y\"}},\"vars\":[{\"name\":\"b\"}],\"limit\":{\"memory\":{\"megabytes\":2}}}}");
    ck_assert_int_eq(codec_merge(dst, src, &f.arena, &f.err), 0);
    ck_assert_str_eq(
        to_json(&f, dst),
        "{\"metadata\":{\"labels\":{\"a\":\"1\",\"b\":\"3\",\"c\":\"4\"}},\"spec\":"
        "{\"image\":{\"registry\":{\"url\":\"y\",\"authentication\":{\"username\":\"u\"}}},"
        "\"limit\":{\"cpu\":{\"millicores\":1},\"memory\":{\"megabytes\":2}},\"vars\":"
        "[{\"name\":\"a\"},{\"name\":\"b\"}],\"isEphemeral\":true}}");
    src = from_json(&f, workspace, "{\"spec\":{\"image\":{\"git\":{\"url\":\"z\"}}}}");
    ck_assert_int_eq(codec_merge(dst, src, &f.arena, &f.err), 0);
    ck_assert_ptr_nonnull(strstr(to_json(&f, dst), "\"image\":{\"git\":{\"url\":\"z\"}}"));
    ck_assert_int_eq(codec_merge(dst, from_json(&f, space, "{}"), &f.arena, &f.err),
                     -STATUS_INTERNAL);
    fixture_free(&f);
}
END_TEST

START_TEST(equal_knows_every_difference)
{
    static const char *const texts[] = {
        "{}",
        "{\"metadata\":{}}",
        "{\"metadata\":{\"name\":\"a\"}}",
        "{\"metadata\":{\"labels\":{\"a\":\"1\",\"b\":\"2\"}}}",
        "{\"metadata\":{\"labels\":{\"a\":\"1\",\"b\":\"3\"}}}",
        "{\"metadata\":{\"labels\":{\"a\":\"1\"}}}",
        "{\"spec\":{\"attrs\":{\"x\":1}}}",
        "{\"spec\":{\"attrs\":{\"x\":\"1\"}}}",
        "{\"spec\":{\"rules\":[{\"condition\":{\"match\":\"\"}}]}}",
        "{\"spec\":{\"rules\":[{\"condition\":{\"not\":\"\"}}]}}",
        "{\"spec\":{\"rules\":[{\"condition\":{}}]}}",
        "{\"spec\":{\"rules\":[{\"condition\":{\"matchAny\":false}}]}}",
    };
    enum { COUNT = sizeof(texts) / sizeof(texts[0]) };
    struct fixture f;
    fixture_init(&f);
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < COUNT; k++) {
            ProtobufCMessage *a = from_json(&f, policy, texts[i]);
            ProtobufCMessage *b = from_json(&f, policy, texts[k]);
            ck_assert_msg(codec_equal(a, b) == (i == k), "%s %s", texts[i], texts[k]);
            ck_assert_str_eq(to_json(&f, a), texts[i]);
            ProtobufCMessage *copy = codec_copy(a, &f.arena);
            ck_assert(codec_equal(a, copy));
            buf_clear(&f.out);
            ck_assert_int_eq(codec_encode_wire(copy, &f.out, &f.err), 0);
            ck_assert(codec_equal(a, from_wire(&f, policy, f.out.ptr, f.out.len)));
        }
    }
    ck_assert(codec_equal(
        from_json(&f, policy, "{\"metadata\":{\"labels\":{\"a\":\"1\",\"b\":\"2\"}}}"),
        from_json(&f, policy, "{\"metadata\":{\"labels\":{\"b\":\"2\",\"a\":\"1\"}}}")));
    ck_assert(codec_equal(NULL, NULL));
    ck_assert(!codec_equal(NULL, from_json(&f, policy, "{}")));
    fixture_free(&f);
}
END_TEST

START_TEST(methods_are_found_by_path)
{
    const struct schema_method *m =
        schema_method_find(STR("/octelium.api.main.cordium.v1.WorkspaceService/Exec"));
    ck_assert_ptr_nonnull(m);
    ck_assert(m->client_streams && m->server_streams && !m->no_side_effects);
    ck_assert_ptr_eq(m->request->descriptor, &cordium__exec_request__descriptor);
    ck_assert_ptr_eq(m->response->descriptor, &cordium__exec_response__descriptor);
    ck_assert_str_eq(m->service, "octelium.api.main.cordium.v1.WorkspaceService");
    ck_assert_ptr_null(schema_method_find(STR("/octelium.api.main.cordium.v1.X/Exec")));
    ck_assert_ptr_null(schema_method_find(STR("")));
    size_t count;
    const struct schema_method *all = schema_methods(&count);
    ck_assert_uint_gt(count, 80);
    for (size_t i = 0; i < count; i++) {
        ck_assert_ptr_eq(schema_method_find(str_from(all[i].path)), &all[i]);
        ck_assert_ptr_eq(schema_message_find(all[i].request->descriptor), all[i].request);
    }
}
END_TEST

START_TEST(schemas_are_found_by_their_place)
{
    ck_assert_ptr_eq(schema_message_at(SCHEMA_INDEX_core__user),
                     schema_message_find(&core__user__descriptor));
    ck_assert_ptr_eq(schema_message_at(SCHEMA_INDEX_cordium__workspace__spec__limit),
                     schema_message_find(&cordium__workspace__spec__limit__descriptor));
    size_t count = 0;
    for (const struct schema_message *m; (m = schema_message_at(count)) != NULL; count++) {
        ck_assert_ptr_eq(schema_message_find(m->descriptor), m);
        for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
            ck_assert_uint_eq(m->fields[i].json_name_len, strlen(m->fields[i].json_name));
        }
    }
    ck_assert_uint_gt(count, 300);
}
END_TEST

START_TEST(files_are_found_by_name_and_symbol)
{
    const struct schema_file *file = schema_file_by_name(STR("api/cordium.proto"));
    ck_assert_ptr_nonnull(file);
    static const char *const symbols[] = {
        "octelium.api.main.cordium.v1.MainService",
        "octelium.api.main.cordium.v1.WorkspaceService.Exec",
        "octelium.api.main.cordium.v1.Workspace.Status.State",
        "octelium.api.main.cordium.v1.Workspace.Spec.Limit.CPU",
    };
    for (size_t i = 0; i < 4; i++) {
        ck_assert_ptr_eq(schema_file_by_symbol(str_from(symbols[i])), file);
    }
    ck_assert_ptr_null(schema_file_by_symbol(STR("octelium.api.main.cordium.v1.Nothing")));
    ck_assert_ptr_null(schema_file_by_name(STR("cordium.proto")));
    /* Each file begins with its name (field 1), and imports what stands before it. */
    size_t count = 0;
    for (; (file = schema_file_at(count)); count++) {
        struct str bytes = schema_file_bytes(file);
        ck_assert_uint_gt(bytes.len, strlen(file->name) + 2);
        ck_assert_int_eq(bytes.ptr[0], 0x0a);
        ck_assert_int_eq(memcmp(bytes.ptr + 2, file->name, strlen(file->name)), 0);
        for (size_t k = 0; k < file->import_count; k++) {
            ck_assert_uint_lt(file->imports[k], count);
        }
    }
    ck_assert_uint_ge(count, 12);
}
END_TEST

Suite *suite_codec(void)
{
    Suite *s = suite_create("codec");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 30);
    tcase_add_test(t, json_round_trip_keeps_a_workspace);
    tcase_add_test(t, json_takes_all_spellings_of_a_name);
    tcase_add_test(t, json_unknown_field_is_named_with_its_place);
    tcase_add_test(t, json_wrong_values_are_refused_with_their_path);
    tcase_add_test(t, json_takes_numbers_as_protobuf_does);
    tcase_add_test(t, json_bytes_are_base64_of_either_alphabet);
    tcase_add_test(t, json_struct_is_natural_json);
    tcase_add_test(t, what_json_accepts_the_wire_reads_again);
    tcase_add_test(t, timestamps_keep_every_second_of_their_range);
    tcase_add_test(t, wire_refuses_what_protobuf_c_would_take);
    tcase_add_test(t, wire_depth_is_bounded);
    tcase_add_test(t, wire_memory_and_fields_are_bounded);
    tcase_add_test(t, wire_drops_unknown_fields_and_keeps_the_last_of_equal_keys);
    tcase_add_test(t, yaml_policy_file_is_read_by_the_schema);
    tcase_add_test(t, yaml_is_written_as_people_write_it);
    tcase_add_test(t, text_of_too_deep_a_message_is_an_error);
    tcase_add_test(t, merge_is_protobufs_merge);
    tcase_add_test(t, equal_knows_every_difference);
    tcase_add_test(t, text_that_was_cut_within_a_character_is_mended_on_its_way_out);
    tcase_add_test(t, methods_are_found_by_path);
    tcase_add_test(t, schemas_are_found_by_their_place);
    tcase_add_test(t, files_are_found_by_name_and_symbol);
    suite_add_tcase(s, t);
    return s;
}
