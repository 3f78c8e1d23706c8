/* Messages as JSON and YAML, and back through their readers. */
#include "gateway/rpc/codec.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/rpc/codec_field.h"
#include "gateway/rpc/codec_scalar.h"
#include "gateway/text/json_reader.h"
#include "gateway/text/json_sink.h"
#include "gateway/text/yaml_out.h"
#include "gateway/text/yaml_reader.h"
#include "google/protobuf/duration.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"

struct encode {
    struct sink sink;
    unsigned depth; /* of maps and lists in the text */
    struct error *err;
};

static int enter(struct encode *e)
{
    if (e->depth >= SINK_DEPTH_MAX) {
        return error_set(e->err, STATUS_RESOURCE_EXHAUSTED,
                         "the message is nested deeper than %d levels, which its text form cannot "
                         "show",
                         SINK_DEPTH_MAX);
    }
    e->depth++;
    return 0;
}

static void put_string(struct encode *e, struct str text)
{
    e->sink.ops->string(e->sink.state, text);
}

static void put_word(struct encode *e, const char *word)
{
    e->sink.ops->word(e->sink.state, word);
}

/* 64-bit integers are text, since JSON's readers are not to be trusted with them. */
static void put_integer(struct encode *e, const ProtobufCFieldDescriptor *f, const void *p,
                        bool is_signed, bool as_key)
{
    char text[24];
    bool is_wide = field_element_size(f) == 8;
    int n;
    if (is_signed) {
        int64_t v = is_wide ? *(const int64_t *)p : *(const int32_t *)p;
        n = snprintf(text, sizeof(text), "%" PRId64, v);
    } else {
        uint64_t v = is_wide ? *(const uint64_t *)p : *(const uint32_t *)p;
        n = snprintf(text, sizeof(text), "%" PRIu64, v);
    }
    if (as_key) {
        e->sink.ops->key(e->sink.state, str_make(text, (size_t)n));
    } else if (is_wide) {
        put_string(e, str_make(text, (size_t)n));
    } else {
        put_word(e, text);
    }
}

/* The shortest digits that give the same float again. */
static void put_float(struct encode *e, float v)
{
    if (!isfinite(v)) {
        e->sink.ops->real(e->sink.state, (double)v);
        return;
    }
    char text[32];
    for (int precision = 6; precision <= 9; precision++) {
        (void)snprintf(text, sizeof(text), "%.*g", precision, (double)v);
        if (strtof(text, NULL) == v) {
            break;
        }
    }
    put_word(e, text);
}

static void put_enum(struct encode *e, const ProtobufCFieldDescriptor *f, const void *p)
{
    int32_t number = *(const int32_t *)p;
    const ProtobufCEnumDescriptor *type = f->descriptor;
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(type, number);
    char text[16];
    if (v) {
        put_string(e, str_from(v->name));
    } else {
        (void)snprintf(text, sizeof(text), "%" PRId32, number);
        put_word(e, text);
    }
}

static int put_bytes(struct encode *e, const ProtobufCBinaryData *data)
{
    struct buf text;
    buf_init(&text, data->len / 3 * 4 + 8);
    scalar_write_base64(&text, data->data, data->len);
    bool failed = text.failed;
    put_string(e, buf_str(&text));
    buf_free(&text);
    return failed ? error_set(e->err, STATUS_RESOURCE_EXHAUSTED, "out of memory") : 0;
}

static int put_message(struct encode *e, const struct schema_message *schema,
                       const ProtobufCMessage *m);

static int put_value(struct encode *e, const ProtobufCFieldDescriptor *f,
                     const struct schema_field *field, const void *p)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        put_integer(e, f, p, true, false);
        return 0;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        put_integer(e, f, p, false, false);
        return 0;
    case PROTOBUF_C_TYPE_FLOAT:
        put_float(e, *(const float *)p);
        return 0;
    case PROTOBUF_C_TYPE_DOUBLE:
        e->sink.ops->real(e->sink.state, *(const double *)p);
        return 0;
    case PROTOBUF_C_TYPE_BOOL:
        put_word(e, *(const protobuf_c_boolean *)p ? "true" : "false");
        return 0;
    case PROTOBUF_C_TYPE_ENUM:
        put_enum(e, f, p);
        return 0;
    case PROTOBUF_C_TYPE_STRING:
        put_string(e, str_from(field_string(p)));
        return 0;
    case PROTOBUF_C_TYPE_BYTES:
        return put_bytes(e, p);
    case PROTOBUF_C_TYPE_MESSAGE:
        return put_message(e, field->message, field_message(p));
    default:
        return error_set(e->err, STATUS_INTERNAL, "field %s has an unknown type", f->name);
    }
}

static void put_map_key(struct encode *e, const ProtobufCFieldDescriptor *f, const void *p)
{
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        e->sink.ops->key(e->sink.state, str_from(field_string(p)));
    } else if (f->type == PROTOBUF_C_TYPE_BOOL) {
        e->sink.ops->key(e->sink.state,
                         *(const protobuf_c_boolean *)p ? STR("true") : STR("false"));
    } else {
        bool is_unsigned = f->type == PROTOBUF_C_TYPE_UINT32 || f->type == PROTOBUF_C_TYPE_UINT64 ||
                           f->type == PROTOBUF_C_TYPE_FIXED32 || f->type == PROTOBUF_C_TYPE_FIXED64;
        put_integer(e, f, p, !is_unsigned, true);
    }
}

static int put_map(struct encode *e, const ProtobufCFieldDescriptor *f,
                   const struct schema_field *field, const ProtobufCMessage *m)
{
    const struct schema_message *entry = field->message;
    const ProtobufCFieldDescriptor *key = &entry->descriptor->fields[0];
    const ProtobufCFieldDescriptor *value = &entry->descriptor->fields[1];
    int status = enter(e);
    if (status < 0) {
        return status;
    }
    e->sink.ops->begin_map(e->sink.state);
    for (size_t i = 0; i < *field_count(m, f); i++) {
        const ProtobufCMessage *pair = field_message(field_element(m, f, i));
        put_map_key(e, key, field_at(pair, key));
        status = put_value(e, value, &entry->fields[1], field_at(pair, value));
        if (status < 0) {
            return status;
        }
    }
    e->sink.ops->end_map(e->sink.state);
    e->depth--;
    return 0;
}

static int put_list(struct encode *e, const ProtobufCFieldDescriptor *f,
                    const struct schema_field *field, const ProtobufCMessage *m)
{
    int status = enter(e);
    if (status < 0) {
        return status;
    }
    e->sink.ops->begin_list(e->sink.state);
    for (size_t i = 0; i < *field_count(m, f); i++) {
        status = put_value(e, f, field, field_element(m, f, i));
        if (status < 0) {
            return status;
        }
    }
    e->sink.ops->end_list(e->sink.state);
    e->depth--;
    return 0;
}

static int put_plain(struct encode *e, const struct schema_message *schema,
                     const ProtobufCMessage *m)
{
    int status = enter(e);
    if (status < 0) {
        return status;
    }
    e->sink.ops->begin_map(e->sink.state);
    for (unsigned i = 0; m && i < schema->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &schema->descriptor->fields[i];
        const struct schema_field *field = &schema->fields[i];
        if (!field_is_set(m, f)) {
            continue;
        }
        e->sink.ops->key(e->sink.state, str_from(field->json_name));
        status = field->is_map          ? put_map(e, f, field, m)
                 : field_is_repeated(f) ? put_list(e, f, field, m)
                                        : put_value(e, f, field, field_at(m, f));
        if (status < 0) {
            return status;
        }
    }
    e->sink.ops->end_map(e->sink.state);
    e->depth--;
    return 0;
}

/* Timestamp and Duration. */
static int put_time(struct encode *e, const struct schema_message *schema,
                    const ProtobufCMessage *m)
{
    struct buf text;
    buf_init(&text, 64);
    bool ok;
    if (schema->kind == SCHEMA_TIMESTAMP) {
        const Google__Protobuf__Timestamp *t = (const Google__Protobuf__Timestamp *)m;
        ok = scalar_write_timestamp(&text, t->seconds, t->nanos);
    } else {
        const Google__Protobuf__Duration *t = (const Google__Protobuf__Duration *)m;
        ok = scalar_write_duration(&text, t->seconds, t->nanos);
    }
    if (ok) {
        put_string(e, buf_str(&text));
    }
    buf_free(&text);
    return ok ? 0
              : error_set(e->err, STATUS_INVALID_ARGUMENT, "a %s is out of its range",
                          schema->descriptor->short_name);
}

static int put_any_value(struct encode *e, const struct schema_message *schema,
                         const ProtobufCMessage *m)
{
    for (unsigned i = 0; i < schema->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &schema->descriptor->fields[i];
        if (*field_case(m, f) != f->id) {
            continue;
        }
        if (f->type == PROTOBUF_C_TYPE_ENUM) { /* NullValue */
            break;
        }
        if (f->type == PROTOBUF_C_TYPE_DOUBLE && !isfinite(*(const double *)field_at(m, f))) {
            return error_set(e->err, STATUS_INVALID_ARGUMENT,
                             "a google.protobuf.Value cannot hold NaN or an infinity");
        }
        return put_value(e, f, &schema->fields[i], field_at(m, f));
    }
    put_word(e, "null");
    return 0;
}

/* m may be NULL, in which case it is an empty message. */
static int put_message(struct encode *e, const struct schema_message *schema,
                       const ProtobufCMessage *m)
{
    if (!m && schema->kind != SCHEMA_PLAIN) {
        put_word(e, "null");
        return 0;
    }
    switch (schema->kind) {
    case SCHEMA_TIMESTAMP:
    case SCHEMA_DURATION:
        return put_time(e, schema, m);
    case SCHEMA_STRUCT:
        return put_map(e, &schema->descriptor->fields[0], &schema->fields[0], m);
    case SCHEMA_LIST_VALUE:
        return put_list(e, &schema->descriptor->fields[0], &schema->fields[0], m);
    case SCHEMA_VALUE:
        return put_any_value(e, schema, m);
    case SCHEMA_PLAIN:
    case SCHEMA_MAP_ENTRY:
    default:
        return put_plain(e, schema, m);
    }
}

static int encode_text(const ProtobufCMessage *message, struct sink sink, struct buf *out,
                       struct error *err)
{
    const struct schema_message *schema = schema_message_find(message->descriptor);
    if (!schema) {
        return error_set(err, STATUS_INTERNAL, "%s is not a message of the API",
                         message->descriptor->name);
    }
    struct encode e = {.sink = sink, .err = err};
    int status = put_message(&e, schema, message);
    if (status == 0 && out->failed) {
        status = error_set(err, STATUS_RESOURCE_EXHAUSTED, "the %s is too large",
                           schema->descriptor->short_name);
    }
    return status;
}

int codec_encode_json(const ProtobufCMessage *message, struct buf *out, struct error *err)
{
    struct json_out j = json_out_to(out);
    return encode_text(message, json_sink(&j), out, err);
}

int codec_encode_yaml(const ProtobufCMessage *message, struct buf *out, struct error *err)
{
    struct yaml_out y = yaml_out_to(out);
    return encode_text(message, yaml_out_sink(&y), out, err);
}

int codec_decode_json(const ProtobufCMessageDescriptor *descriptor, struct str text, unsigned flags,
                      struct arena *arena, ProtobufCMessage **ret, struct error *err)
{
    const struct tree_node *tree;
    int status = json_read(text, arena, &tree, err);
    return status < 0 ? status : codec_decode_tree(descriptor, tree, flags, arena, ret, err);
}

int codec_decode_yaml(const ProtobufCMessageDescriptor *descriptor, struct str text, unsigned flags,
                      struct arena *arena, ProtobufCMessage **ret, struct error *err)
{
    const struct tree_node *tree;
    int status = yaml_read(text, arena, &tree, err);
    return status < 0 ? status : codec_decode_tree(descriptor, tree, flags, arena, ret, err);
}
