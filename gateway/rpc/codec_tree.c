/* From a tree (JSON or YAML) to a message, by the schema. */
#include "gateway/rpc/codec.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "gateway/rpc/codec_field.h"
#include "gateway/rpc/codec_scalar.h"
#include "gateway/text/suggest.h"
#include "gateway/text/tree.h"
#include "google/protobuf/duration.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"

struct decode {
    struct arena *arena;
    unsigned flags;
    size_t fields_left; /* as the wire decoder counts them, so that what was accepted can be read
                           again */
    struct error *err;
};

/* Where we are, for error texts: a chain through the callers' frames. */
struct place {
    const struct place *up;
    struct str name; /* of a member; empty for an element */
    size_t index;
    unsigned depth; /* of messages, as on the wire */
};

static size_t place_format(const struct place *place, char *out, size_t room)
{
    if (!place || !place->up) {
        return 0;
    }
    size_t at = place_format(place->up, out, room);
    int n = place->name.len > 0
                ? snprintf(out + at, room - at, "%s%.*s", at > 0 ? "." : "",
                           (int)(place->name.len > 64 ? 64 : place->name.len), place->name.ptr)
                : snprintf(out + at, room - at, "[%zu]", place->index);
    size_t end = at + (size_t)(n > 0 ? n : 0);
    return end < room ? end : room - 1;
}

__attribute__((format(printf, 4, 5))) static int fail(struct decode *d, const struct place *place,
                                                      const struct tree_node *node,
                                                      const char *format, ...)
{
    char where[256] = "";
    char what[512];
    place_format(place, where, sizeof(where));
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(what, sizeof(what), format, ap); /* cut when it is too long */
    va_end(ap);
    return error_set_at(d->err, STATUS_INVALID_ARGUMENT, node->line, node->column, "%s%s%s", where,
                        where[0] ? ": " : "", what);
}

static int fail_memory(struct decode *d)
{
    return error_set(d->err, STATUS_RESOURCE_EXHAUSTED, "the message is too large");
}

static int fail_expected(struct decode *d, const struct place *place, const struct tree_node *node,
                         const char *expected)
{
    bool is_scalar = node->type == TREE_STRING || node->type == TREE_NUMBER;
    return is_scalar
               ? fail(d, place, node, "expected %s, not '%.*s'", expected,
                      (int)(node->text.len > 80 ? 80 : node->text.len), node->text.ptr)
               : fail(d, place, node, "expected %s, not %s", expected, tree_type_name(node->type));
}

static int take_fields(struct decode *d, size_t count)
{
    if (d->fields_left < count) {
        return error_set(d->err, STATUS_INVALID_ARGUMENT, "the message has more than %d fields",
                         CODEC_FIELDS_MAX);
    }
    d->fields_left -= count;
    return 0;
}

static bool node_may_be_number(const struct tree_node *node)
{
    return node->type == TREE_NUMBER || node->type == TREE_STRING;
}

static int read_signed(struct decode *d, const struct place *place, const struct tree_node *node,
                       int64_t min, int64_t max, int64_t *ret)
{
    if (!node_may_be_number(node) || !scalar_read_i64(node->text, ret) || *ret < min ||
        *ret > max) {
        return fail_expected(d, place, node,
                             max > INT32_MAX ? "a whole number of 64 bits"
                                             : "a whole number of 32 bits");
    }
    return 0;
}

static int read_unsigned(struct decode *d, const struct place *place, const struct tree_node *node,
                         uint64_t max, uint64_t *ret)
{
    if (!node_may_be_number(node) || !scalar_read_u64(node->text, ret) || *ret > max) {
        return fail_expected(d, place, node,
                             max > UINT32_MAX ? "a whole number of 64 bits, not negative"
                                              : "a whole number of 32 bits, not negative");
    }
    return 0;
}

static int read_double(struct decode *d, const struct place *place, const struct tree_node *node,
                       double *ret)
{
    if (!node_may_be_number(node) || !scalar_read_double(node->text, ret)) {
        return fail_expected(d, place, node, "a number");
    }
    return 0;
}

static int read_float(struct decode *d, const struct place *place, const struct tree_node *node,
                      float *ret)
{
    double v;
    int status = read_double(d, place, node, &v);
    if (status == 0 && isfinite(v) && fabs(v) > (double)FLT_MAX) {
        return fail_expected(d, place, node, "a number of single precision");
    }
    if (status == 0) {
        *ret = (float)v;
    }
    return status;
}

static int read_bool(struct decode *d, const struct place *place, const struct tree_node *node,
                     protobuf_c_boolean *ret)
{
    if (node->type != TREE_BOOL) {
        return fail_expected(d, place, node, "true or false");
    }
    *ret = tree_is_true(node);
    return 0;
}

static int read_string(struct decode *d, const struct place *place, const struct tree_node *node,
                       char **ret)
{
    /* What YAML takes for a number or boolean is text where the schema says so. */
    bool is_text = node->type == TREE_STRING ||
                   (node->is_plain && (node->type == TREE_NUMBER || node->type == TREE_BOOL));
    if (!is_text) {
        return fail_expected(d, place, node, "text");
    }
    *ret = arena_strndup(d->arena, node->text.ptr, node->text.len);
    return *ret ? 0 : fail_memory(d);
}

static int read_bytes(struct decode *d, const struct place *place, const struct tree_node *node,
                      ProtobufCBinaryData *ret)
{
    if (node->type != TREE_STRING && !node->is_plain) {
        return fail_expected(d, place, node, "base64 text");
    }
    if (!scalar_read_base64(node->text, d->arena, &ret->data, &ret->len)) {
        return fail(d, place, node, "not well-formed base64");
    }
    return 0;
}

static int fail_enum(struct decode *d, const struct place *place, const struct tree_node *node,
                     const ProtobufCEnumDescriptor *e)
{
    struct suggest s = suggest_for(node->text);
    char names[256] = "";
    size_t len = 0;
    for (unsigned i = 0; i < e->n_values; i++) {
        suggest_offer(&s, e->values[i].name);
        int n = snprintf(names + len, sizeof(names) - len, "%s%s", i > 0 ? ", " : "",
                         e->values[i].name);
        if (n < 0 || (size_t)n >= sizeof(names) - len) {
            break; /* enough of them */
        }
        len += (size_t)n;
    }
    return fail(d, place, node, "'%.*s' is not one of %s%s%s%s",
                (int)(node->text.len > 80 ? 80 : node->text.len), node->text.ptr, names,
                s.best ? "; did you mean '" : "", s.best ? s.best : "", s.best ? "'?" : "");
}

static int read_enum(struct decode *d, const struct place *place, const struct tree_node *node,
                     const ProtobufCEnumDescriptor *e, int32_t *ret)
{
    int64_t number;
    if (node->type == TREE_NUMBER) { /* proto3's enums are open: any number is one */
        int status = read_signed(d, place, node, INT32_MIN, INT32_MAX, &number);
        if (status == 0) {
            *ret = (int32_t)number;
        }
        return status;
    }
    if (node->type != TREE_STRING && !node->is_plain) {
        return fail_expected(d, place, node, "a name");
    }
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value_by_name(e, node->text.ptr);
    if (!v) {
        return fail_enum(d, place, node, e);
    }
    *ret = v->value;
    return 0;
}

static int read_signed_field(struct decode *d, const struct place *place,
                             const struct tree_node *node, size_t size, void *to)
{
    int64_t v;
    int status = size == 8 ? read_signed(d, place, node, INT64_MIN, INT64_MAX, &v)
                           : read_signed(d, place, node, INT32_MIN, INT32_MAX, &v);
    if (status == 0 && size == 8) {
        *(int64_t *)to = v;
    } else if (status == 0) {
        *(int32_t *)to = (int32_t)v;
    }
    return status;
}

static int read_unsigned_field(struct decode *d, const struct place *place,
                               const struct tree_node *node, size_t size, void *to)
{
    uint64_t v;
    int status = read_unsigned(d, place, node, size == 8 ? UINT64_MAX : UINT32_MAX, &v);
    if (status == 0 && size == 8) {
        *(uint64_t *)to = v;
    } else if (status == 0) {
        *(uint32_t *)to = (uint32_t)v;
    }
    return status;
}

static int read_message(struct decode *d, const struct place *place,
                        const struct schema_message *schema, const struct tree_node *node,
                        ProtobufCMessage **ret);

/* One value of a field's type, into its element. */
static int read_value(struct decode *d, const struct place *place,
                      const ProtobufCFieldDescriptor *f, const struct schema_field *field,
                      const struct tree_node *node, void *to)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return read_signed_field(d, place, node, field_element_size(f), to);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return read_unsigned_field(d, place, node, field_element_size(f), to);
    case PROTOBUF_C_TYPE_FLOAT:
        return read_float(d, place, node, to);
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_double(d, place, node, to);
    case PROTOBUF_C_TYPE_BOOL:
        return read_bool(d, place, node, to);
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(d, place, node, f->descriptor, to);
    case PROTOBUF_C_TYPE_STRING:
        return read_string(d, place, node, to);
    case PROTOBUF_C_TYPE_BYTES:
        return read_bytes(d, place, node, to);
    case PROTOBUF_C_TYPE_MESSAGE:
        return read_message(d, place, field->message, node, to);
    default:
        return fail(d, place, node, "a field of an unknown type");
    }
}

/* A map's key arrives as text, whatever its type. */
static int read_map_key(struct decode *d, const struct place *place,
                        const struct schema_message *entry, const struct tree_node *node,
                        ProtobufCMessage *m)
{
    const ProtobufCFieldDescriptor *f = &entry->descriptor->fields[0];
    struct tree_node key = {
        .type = TREE_STRING,
        .is_plain = true,
        .line = node->key_line,
        .column = node->key_column,
        .text = node->key,
    };
    if (f->type == PROTOBUF_C_TYPE_BOOL &&
        (str_is(key.text, "true") || str_is(key.text, "false"))) {
        key.type = TREE_BOOL;
    }
    return read_value(d, place, f, &entry->fields[0], &key, field_at(m, f));
}

static int read_map_entry(struct decode *d, const struct place *up,
                          const struct schema_message *entry, const struct tree_node *node,
                          ProtobufCMessage **ret)
{
    const struct place place = {.up = up, .name = node->key, .depth = up->depth + 1};
    const ProtobufCFieldDescriptor *value = &entry->descriptor->fields[1];
    ProtobufCMessage *m = codec_new(entry->descriptor, d->arena);
    if (!m) {
        return fail_memory(d);
    }
    int status = take_fields(d, 3);
    if (status == 0) {
        status = read_map_key(d, &place, entry, node, m);
    }
    if (status == 0 && node->type == TREE_NULL &&
        !(entry->fields[1].message && entry->fields[1].message->kind == SCHEMA_VALUE)) {
        status = fail_expected(d, &place, node, "a value");
    }
    if (status == 0) {
        status = read_value(d, &place, value, &entry->fields[1], node, field_at(m, value));
    }
    *ret = m;
    return status;
}

static int read_element(struct decode *d, const struct place *up, size_t index,
                        const ProtobufCFieldDescriptor *f, const struct schema_field *field,
                        const struct tree_node *node, void *to)
{
    const struct place place = {.up = up, .index = index, .depth = up->depth};
    int status = take_fields(d, 1);
    if (status == 0 && node->type == TREE_NULL &&
        !(field->message && field->message->kind == SCHEMA_VALUE)) {
        status = fail_expected(d, &place, node, "a value");
    }
    return status < 0 ? status : read_value(d, &place, f, field, node, to);
}

static int read_repeated(struct decode *d, const struct place *place,
                         const ProtobufCFieldDescriptor *f, const struct schema_field *field,
                         const struct tree_node *node, ProtobufCMessage *m)
{
    if (node->type != (field->is_map ? TREE_MAP : TREE_LIST)) {
        return fail_expected(d, place, node, field->is_map ? "an object" : "a list");
    }
    if (node->count == 0) {
        return 0;
    }
    size_t size = field_element_size(f);
    char *elements = arena_calloc(d->arena, node->count, size);
    if (!elements) {
        return fail_memory(d);
    }
    size_t count = 0;
    for (const struct tree_node *n = node->first; n; n = n->next) {
        char *to = elements + count * size;
        int status = field->is_map
                         ? read_map_entry(d, place, field->message, n, (ProtobufCMessage **)to)
                         : read_element(d, place, count, f, field, n, to);
        if (status < 0) {
            return status;
        }
        count++;
    }
    memcpy(field_at(m, f), &elements, sizeof(elements));
    *field_count(m, f) = count;
    return 0;
}

static int fail_unknown(struct decode *d, const struct place *place,
                        const struct schema_message *schema, const struct tree_node *node)
{
    struct suggest s = suggest_for(node->key);
    for (unsigned i = 0; i < schema->descriptor->n_fields; i++) {
        suggest_offer(&s, schema->fields[i].json_name);
    }
    const struct tree_node key = {.line = node->key_line, .column = node->key_column};
    return fail(d, place, &key, "unknown field '%.*s'%s%s%s",
                (int)(node->key.len > 80 ? 80 : node->key.len), node->key.ptr,
                s.best ? "; did you mean '" : "", s.best ? s.best : "", s.best ? "'?" : "");
}

/* One member of an object. seen has a bit per field. */
static const char *json_name_of(const struct schema_message *schema,
                                const ProtobufCFieldDescriptor *f)
{
    return schema->fields[f - schema->descriptor->fields].json_name;
}

static int read_member(struct decode *d, const struct place *up,
                       const struct schema_message *schema, const struct tree_node *node,
                       ProtobufCMessage *m, uint64_t *seen)
{
    int i = schema_field_by_name(schema, node->key);
    if (i < 0) {
        return d->flags & CODEC_STRICT ? fail_unknown(d, up, schema, node) : 0;
    }
    const ProtobufCFieldDescriptor *f = &schema->descriptor->fields[i];
    const struct schema_field *field = &schema->fields[i];
    const struct place place = {.up = up, .name = node->key, .depth = up->depth};
    if (i < 64 && (*seen & (uint64_t)1 << i)) {
        return fail(d, &place, node, "the field '%s' is given under two names", field->json_name);
    }
    *seen |= i < 64 ? (uint64_t)1 << i : 0;
    if (node->type == TREE_NULL && !(field->message && field->message->kind == SCHEMA_VALUE)) {
        return 0; /* null is unset */
    }
    if (field_is_repeated(f)) {
        return read_repeated(d, &place, f, field, node, m);
    }
    int status = take_fields(d, 1);
    if (status < 0) {
        return status;
    }
    if (field_is_oneof(f)) {
        const ProtobufCFieldDescriptor *other =
            protobuf_c_message_descriptor_get_field(schema->descriptor, *field_case(m, f));
        if (other) {
            return fail(d, &place, node, "only one of '%s' and '%s' may be set",
                        json_name_of(schema, other), field->json_name);
        }
        *field_case(m, f) = f->id;
    }
    return read_value(d, &place, f, field, node, field_at(m, f));
}

static int read_plain(struct decode *d, const struct place *place,
                      const struct schema_message *schema, const struct tree_node *node,
                      ProtobufCMessage *m)
{
    uint64_t seen = 0;
    if (node->type != TREE_MAP) {
        return fail_expected(d, place, node, "an object");
    }
    for (const struct tree_node *n = node->first; n; n = n->next) {
        int status = read_member(d, place, schema, n, m, &seen);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

static int read_timestamp(struct decode *d, const struct place *place, const struct tree_node *node,
                          ProtobufCMessage *m)
{
    Google__Protobuf__Timestamp *t = (Google__Protobuf__Timestamp *)m;
    if (node->type != TREE_STRING || !scalar_read_timestamp(node->text, &t->seconds, &t->nanos)) {
        return fail_expected(d, place, node, "a time such as 2026-01-31T12:00:00Z");
    }
    return 0;
}

static int read_duration(struct decode *d, const struct place *place, const struct tree_node *node,
                         ProtobufCMessage *m)
{
    Google__Protobuf__Duration *t = (Google__Protobuf__Duration *)m;
    if (node->type != TREE_STRING || !scalar_read_duration(node->text, &t->seconds, &t->nanos)) {
        return fail_expected(d, place, node, "a duration such as 1.5s");
    }
    return 0;
}

/* google.protobuf.Value: whatever stands there. */
static int read_any_value(struct decode *d, const struct place *place,
                          const struct schema_message *schema, const struct tree_node *node,
                          ProtobufCMessage *m)
{
    static const unsigned numbers[] = {
        [TREE_NULL] = 1, [TREE_NUMBER] = 2, [TREE_STRING] = 3,
        [TREE_BOOL] = 4, [TREE_MAP] = 5,    [TREE_LIST] = 6,
    };
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(schema->descriptor, numbers[node->type]);
    int status = take_fields(d, 1);
    if (status < 0) {
        return status;
    }
    *field_case(m, f) = f->id;
    return node->type == TREE_NULL
               ? 0
               : read_value(d, place, f, &schema->fields[f - schema->descriptor->fields], node,
                            field_at(m, f));
}

static int read_message(struct decode *d, const struct place *up,
                        const struct schema_message *schema, const struct tree_node *node,
                        ProtobufCMessage **ret)
{
    /* The same place, one message deeper. */
    struct place place = *up;
    place.depth++;
    if (place.depth > CODEC_DEPTH_MAX) {
        return fail(d, up, node, "nested too deeply");
    }
    ProtobufCMessage *m = codec_new(schema->descriptor, d->arena);
    if (!m) {
        return fail_memory(d);
    }
    int status = 0;
    switch (schema->kind) {
    case SCHEMA_PLAIN:
    case SCHEMA_MAP_ENTRY:
        status = read_plain(d, &place, schema, node, m);
        break;
    case SCHEMA_TIMESTAMP:
        status = read_timestamp(d, &place, node, m);
        break;
    case SCHEMA_DURATION:
        status = read_duration(d, &place, node, m);
        break;
    case SCHEMA_STRUCT:
    case SCHEMA_LIST_VALUE: /* their one field is the object or list itself */
        status =
            read_repeated(d, &place, &schema->descriptor->fields[0], &schema->fields[0], node, m);
        break;
    case SCHEMA_VALUE:
        status = read_any_value(d, &place, schema, node, m);
        break;
    default:
        break;
    }
    if (status == 0) {
        *ret = m;
    }
    return status;
}

int codec_decode_tree(const ProtobufCMessageDescriptor *descriptor, const struct tree_node *tree,
                      unsigned flags, struct arena *arena, ProtobufCMessage **ret,
                      struct error *err)
{
    const struct schema_message *schema = schema_message_find(descriptor);
    if (!schema) {
        return error_set(err, STATUS_INTERNAL, "%s is not a message of the API", descriptor->name);
    }
    struct decode d = {
        .arena = arena,
        .flags = flags,
        .fields_left = CODEC_FIELDS_MAX,
        .err = err,
    };
    const struct place root = {0};
    return read_message(&d, &root, schema, tree, ret);
}
