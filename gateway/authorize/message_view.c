#include "gateway/authorize/message_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/audit/wall_time.h"
#include "gateway/rpc/codec_field.h"
#include "gateway/rpc/schema.h"
#include "google/protobuf/duration.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"
#include "policy/base/status.h"

/* Each function that makes a value returns 1 when there is one, 0 when the key counts as absent and
 * a negative status, as `get` of policy_map_ops does. */

struct message_map {
    struct policy_map map;
    const ProtobufCMessage *message;
    const struct schema_message *schema;
};

/* A repeated field, or the messages of message_view_make_list(). */
struct repeated_list {
    struct policy_list list;
    const void *items;
    size_t count;
    ProtobufCType type;
    const void *descriptor; /* of an enum */
    const struct schema_message *schema;
};

struct entries_map {
    struct policy_map map;
    const ProtobufCMessage *const *entries;
    size_t count;
    const struct schema_message *schema; /* of the entry */
};

struct struct_map {
    struct policy_map map;
    const Google__Protobuf__Struct *object;
};

struct value_list {
    struct policy_list list;
    const Google__Protobuf__ListValue *values;
};

static const struct policy_map_ops message_map_ops;
static const struct policy_map_ops entries_map_ops;
static const struct policy_map_ops struct_map_ops;
static const struct policy_list_ops repeated_list_ops;
static const struct policy_list_ops value_list_ops;

enum { NO_ROOM = -STATUS_RESOURCE_EXHAUSTED };

static int text_value(char *text, struct policy_value *ret)
{
    if (!text) {
        return NO_ROOM;
    }
    *ret = policy_cstring(text);
    return 1;
}

static int base64_value(const ProtobufCBinaryData *data, struct arena *arena,
                        struct policy_value *ret)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = arena_alloc(arena, data->len / 3 * 4 + 5);
    if (!text) {
        return NO_ROOM;
    }
    char *out = text;
    for (size_t i = 0; i < data->len; i += 3) {
        size_t left = data->len - i;
        uint32_t b = (uint32_t)data->data[i] << 16;
        b |= left > 1 ? (uint32_t)data->data[i + 1] << 8 : 0;
        b |= left > 2 ? (uint32_t)data->data[i + 2] : 0;
        *out++ = digits[b >> 18];
        *out++ = digits[b >> 12 & 63];
        *out++ = left > 1 ? digits[b >> 6 & 63] : '=';
        *out++ = left > 2 ? digits[b & 63] : '=';
    }
    *out = '\0';
    *ret = policy_string(str_make(text, (size_t)(out - text)));
    return 1;
}

static int timestamp_value(const ProtobufCMessage *m, struct arena *arena, struct policy_value *ret)
{
    const Google__Protobuf__Timestamp *t = (const Google__Protobuf__Timestamp *)m;
    char text[WALL_TIME_TEXT_SIZE];
    if (t->nanos < 0 || !wall_time_format(t->seconds, (uint32_t)t->nanos, text)) {
        return -STATUS_INVALID_ARGUMENT;
    }
    return text_value(arena_strdup(arena, text), ret);
}

static int duration_value(const ProtobufCMessage *m, struct arena *arena, struct policy_value *ret)
{
    const Google__Protobuf__Duration *d = (const Google__Protobuf__Duration *)m;
    bool is_negative = d->seconds < 0 || d->nanos < 0;
    uint64_t seconds = d->seconds < 0 ? 0 - (uint64_t)d->seconds : (uint64_t)d->seconds;
    uint32_t nanos = d->nanos < 0 ? 0 - (uint32_t)d->nanos : (uint32_t)d->nanos;
    char *text = nanos ? arena_printf(arena, "%s%" PRIu64 ".%09" PRIu32 "s", is_negative ? "-" : "",
                                      seconds, nanos)
                       : arena_printf(arena, "%s%" PRIu64 "s", is_negative ? "-" : "", seconds);
    return text_value(text, ret);
}

static int struct_value(const Google__Protobuf__Struct *object, struct arena *arena,
                        struct policy_value *ret)
{
    struct struct_map *view = arena_alloc(arena, sizeof *view);
    if (!view) {
        return NO_ROOM;
    }
    *view = (struct struct_map){{&struct_map_ops}, object};
    *ret = policy_map(&view->map);
    return 1;
}

static int list_value(const Google__Protobuf__ListValue *values, struct arena *arena,
                      struct policy_value *ret)
{
    struct value_list *view = arena_alloc(arena, sizeof *view);
    if (!view) {
        return NO_ROOM;
    }
    *view = (struct value_list){{&value_list_ops}, values};
    *ret = policy_list(&view->list);
    return 1;
}

static int json_value(const Google__Protobuf__Value *value, struct arena *arena,
                      struct policy_value *ret)
{
    *ret = policy_null();
    switch (value ? value->kind_case : GOOGLE__PROTOBUF__VALUE__KIND__NOT_SET) {
    case GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE:
        *ret = policy_double(value->number_value);
        break;
    case GOOGLE__PROTOBUF__VALUE__KIND_STRING_VALUE:
        *ret = policy_cstring(value->string_value);
        break;
    case GOOGLE__PROTOBUF__VALUE__KIND_BOOL_VALUE:
        *ret = policy_bool(value->bool_value);
        break;
    case GOOGLE__PROTOBUF__VALUE__KIND_STRUCT_VALUE:
        return struct_value(value->struct_value, arena, ret);
    case GOOGLE__PROTOBUF__VALUE__KIND_LIST_VALUE:
        return list_value(value->list_value, arena, ret);
    case GOOGLE__PROTOBUF__VALUE__KIND_NULL_VALUE:
    case GOOGLE__PROTOBUF__VALUE__KIND__NOT_SET:
    case _GOOGLE__PROTOBUF__VALUE__KIND__CASE_IS_INT_SIZE:
        break;
    }
    return 1;
}

static int message_value(const ProtobufCMessage *m, const struct schema_message *schema,
                         struct arena *arena, struct policy_value *ret)
{
    switch (schema->kind) {
    case SCHEMA_TIMESTAMP:
        return timestamp_value(m, arena, ret);
    case SCHEMA_DURATION:
        return duration_value(m, arena, ret);
    case SCHEMA_STRUCT:
        return struct_value((const Google__Protobuf__Struct *)m, arena, ret);
    case SCHEMA_VALUE:
        return json_value((const Google__Protobuf__Value *)m, arena, ret);
    case SCHEMA_LIST_VALUE:
        return list_value((const Google__Protobuf__ListValue *)m, arena, ret);
    case SCHEMA_PLAIN:
    case SCHEMA_MAP_ENTRY:
        break;
    }
    struct message_map *view = arena_alloc(arena, sizeof *view);
    if (!view) {
        return NO_ROOM;
    }
    *view = (struct message_map){{&message_map_ops}, m, schema};
    *ret = policy_map(&view->map);
    return 1;
}

static int enum_value(const ProtobufCEnumDescriptor *descriptor, int number,
                      struct policy_value *ret)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(descriptor, number);
    *ret = v ? policy_cstring(v->name) : policy_double(number);
    return 1;
}

/* The item at p, whatever its value. */
static int item_value(const void *p, ProtobufCType type, const void *descriptor,
                      const struct schema_message *schema, struct arena *arena,
                      struct policy_value *ret)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        *ret = policy_double(*(const int32_t *)p);
        return 1;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        *ret = policy_double(*(const uint32_t *)p);
        return 1;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return text_value(arena_printf(arena, "%" PRId64, *(const int64_t *)p), ret);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return text_value(arena_printf(arena, "%" PRIu64, *(const uint64_t *)p), ret);
    case PROTOBUF_C_TYPE_FLOAT:
        *ret = policy_double((double)*(const float *)p);
        return 1;
    case PROTOBUF_C_TYPE_DOUBLE:
        *ret = policy_double(*(const double *)p);
        return 1;
    case PROTOBUF_C_TYPE_BOOL:
        *ret = policy_bool(*(const protobuf_c_boolean *)p);
        return 1;
    case PROTOBUF_C_TYPE_ENUM:
        return enum_value(descriptor, *(const int *)p, ret);
    case PROTOBUF_C_TYPE_STRING:
        *ret = policy_cstring(*(const char *const *)p);
        return 1;
    case PROTOBUF_C_TYPE_BYTES:
        return base64_value(p, arena, ret);
    case PROTOBUF_C_TYPE_MESSAGE:
        return message_value(*(const ProtobufCMessage *const *)p, schema, arena, ret);
    }
    return -STATUS_INTERNAL;
}

/* Does a field without presence of its own differ from its zero? */
static bool is_nonzero(const void *p, ProtobufCType type)
{
    static const char zeroes[sizeof(ProtobufCBinaryData)];
    if (type == PROTOBUF_C_TYPE_STRING) {
        const char *s = *(const char *const *)p;
        return s && s[0];
    }
    if (type == PROTOBUF_C_TYPE_BYTES) {
        return ((const ProtobufCBinaryData *)p)->len > 0;
    }
    return memcmp(p, zeroes, field_type_size(type)) != 0;
}

static bool field_is_present(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const void *p = (const char *)m + f->offset;
    const void *quantifier = (const char *)m + f->quantifier_offset;
    bool is_pointer = f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        return *(const size_t *)quantifier > 0;
    }
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        return *(const uint32_t *)quantifier == f->id && (!is_pointer || *(const void *const *)p);
    }
    if (f->label == PROTOBUF_C_LABEL_OPTIONAL && !is_pointer) {
        return *(const protobuf_c_boolean *)quantifier;
    }
    return is_nonzero(p, f->type);
}

static int repeated_value(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                          const struct schema_field *sf, struct arena *arena,
                          struct policy_value *ret)
{
    const void *items = *(const void *const *)((const char *)m + f->offset);
    size_t count = *(const size_t *)(const void *)((const char *)m + f->quantifier_offset);
    if (sf->is_map) {
        struct entries_map *view = arena_alloc(arena, sizeof *view);
        if (!view) {
            return NO_ROOM;
        }
        *view = (struct entries_map){{&entries_map_ops}, items, count, sf->message};
        *ret = policy_map(&view->map);
        return 1;
    }
    struct repeated_list *view = arena_alloc(arena, sizeof *view);
    if (!view) {
        return NO_ROOM;
    }
    *view = (struct repeated_list){{&repeated_list_ops}, items,      count, f->type,
                                   f->descriptor,        sf->message};
    *ret = policy_list(&view->list);
    return 1;
}

static int field_value(const ProtobufCMessage *m, const struct schema_message *schema, unsigned i,
                       struct arena *arena, struct policy_value *ret)
{
    const ProtobufCFieldDescriptor *f = &schema->descriptor->fields[i];
    const struct schema_field *sf = &schema->fields[i];
    if (!field_is_present(m, f)) {
        return 0;
    }
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        return repeated_value(m, f, sf, arena, ret);
    }
    return item_value((const char *)m + f->offset, f->type, f->descriptor, sf->message, arena, ret);
}

static size_t message_map_size(const struct policy_map *self)
{
    const struct message_map *view = (const struct message_map *)self;
    size_t size = 0;
    for (unsigned i = 0; i < view->schema->descriptor->n_fields; i++) {
        size += field_is_present(view->message, &view->schema->descriptor->fields[i]);
    }
    return size;
}

/* Without measuring what begins differently. */
static bool name_is(struct str name, const char *wanted)
{
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] != wanted[i] || !wanted[i]) {
            return false;
        }
    }
    return !wanted[name.len];
}

static int message_map_get(const struct policy_map *self, struct policy_value key,
                           struct arena *arena, struct policy_value *ret)
{
    const struct message_map *view = (const struct message_map *)self;
    if (key.kind != POLICY_STRING) {
        return 0;
    }
    struct str name = policy_value_str(key);
    unsigned count = view->schema->descriptor->n_fields;
    for (unsigned i = 0; i < count; i++) {
        if (name_is(name, view->schema->fields[i].json_name)) {
            return field_value(view->message, view->schema, i, arena, ret);
        }
    }
    return 0;
}

static int message_map_next(const struct policy_map *self, size_t *cursor, struct arena *arena,
                            struct policy_value *ret_key, struct policy_value *ret_value)
{
    const struct message_map *view = (const struct message_map *)self;
    unsigned count = view->schema->descriptor->n_fields;
    while (*cursor < count) {
        unsigned i = (unsigned)(*cursor)++;
        if (field_is_present(view->message, &view->schema->descriptor->fields[i])) {
            *ret_key = policy_cstring(view->schema->fields[i].json_name);
            return ret_value ? field_value(view->message, view->schema, i, arena, ret_value) : 1;
        }
    }
    return 0;
}

static const struct policy_map_ops message_map_ops = {
    .size = message_map_size, .get = message_map_get, .next = message_map_next};

/* A map entry's fields are key = 1 and value = 2, in this order. */
static int entry_key(const struct entries_map *view, size_t i, struct arena *arena,
                     struct policy_value *ret)
{
    const ProtobufCFieldDescriptor *f = &view->schema->descriptor->fields[0];
    const void *p = (const char *)view->entries[i] + f->offset;
    struct policy_value key;
    int rc = item_value(p, f->type, f->descriptor, NULL, arena, &key);
    if (rc != 1 || key.kind == POLICY_STRING) {
        *ret = key;
        return rc;
    }
    /* JSON has text keys only. */
    if (key.kind == POLICY_BOOL) {
        *ret = policy_cstring(key.as.truth ? "true" : "false");
        return 1;
    }
    return text_value(arena_printf(arena, "%.0f", key.as.d), ret);
}

static int entry_value(const struct entries_map *view, size_t i, struct arena *arena,
                       struct policy_value *ret)
{
    const ProtobufCFieldDescriptor *f = &view->schema->descriptor->fields[1];
    const void *p = (const char *)view->entries[i] + f->offset;
    if (f->type == PROTOBUF_C_TYPE_MESSAGE && !*(const void *const *)p) {
        return -STATUS_INTERNAL;
    }
    return item_value(p, f->type, f->descriptor, view->schema->fields[1].message, arena, ret);
}

static size_t entries_map_size(const struct policy_map *self)
{
    return ((const struct entries_map *)self)->count;
}

static int entries_map_get(const struct policy_map *self, struct policy_value key,
                           struct arena *arena, struct policy_value *ret)
{
    const struct entries_map *view = (const struct entries_map *)self;
    if (key.kind != POLICY_STRING) {
        return 0;
    }
    /* From the end: of two entries with one key the later counts, as in protobuf. */
    for (size_t i = view->count; i-- > 0;) {
        struct policy_value k;
        int rc = entry_key(view, i, arena, &k);
        if (rc != 1) {
            return rc;
        }
        if (str_eq(policy_value_str(k), policy_value_str(key))) {
            return entry_value(view, i, arena, ret);
        }
    }
    return 0;
}

static int entries_map_next(const struct policy_map *self, size_t *cursor, struct arena *arena,
                            struct policy_value *ret_key, struct policy_value *ret_value)
{
    const struct entries_map *view = (const struct entries_map *)self;
    if (*cursor >= view->count) {
        return 0;
    }
    size_t i = (*cursor)++;
    int rc = entry_key(view, i, arena, ret_key);
    return rc == 1 && ret_value ? entry_value(view, i, arena, ret_value) : rc;
}

static const struct policy_map_ops entries_map_ops = {
    .size = entries_map_size, .get = entries_map_get, .next = entries_map_next};

static size_t struct_map_size(const struct policy_map *self)
{
    return ((const struct struct_map *)self)->object->n_fields;
}

static int struct_map_get(const struct policy_map *self, struct policy_value key,
                          struct arena *arena, struct policy_value *ret)
{
    const Google__Protobuf__Struct *object = ((const struct struct_map *)self)->object;
    if (key.kind != POLICY_STRING) {
        return 0;
    }
    for (size_t i = object->n_fields; i-- > 0;) {
        if (name_is(policy_value_str(key), object->fields[i]->key)) {
            return json_value(object->fields[i]->value, arena, ret);
        }
    }
    return 0;
}

static int struct_map_next(const struct policy_map *self, size_t *cursor, struct arena *arena,
                           struct policy_value *ret_key, struct policy_value *ret_value)
{
    const Google__Protobuf__Struct *object = ((const struct struct_map *)self)->object;
    if (*cursor >= object->n_fields) {
        return 0;
    }
    const Google__Protobuf__Struct__FieldsEntry *entry = object->fields[(*cursor)++];
    *ret_key = policy_cstring(entry->key);
    return ret_value ? json_value(entry->value, arena, ret_value) : 1;
}

static const struct policy_map_ops struct_map_ops = {
    .size = struct_map_size, .get = struct_map_get, .next = struct_map_next};

static size_t value_list_size(const struct policy_list *self)
{
    return ((const struct value_list *)self)->values->n_values;
}

static int value_list_get(const struct policy_list *self, size_t index, struct arena *arena,
                          struct policy_value *ret)
{
    int rc = json_value(((const struct value_list *)self)->values->values[index], arena, ret);
    return rc == 1 ? 0 : rc;
}

static const struct policy_list_ops value_list_ops = {.size = value_list_size,
                                                      .get = value_list_get};

static size_t repeated_list_size(const struct policy_list *self)
{
    return ((const struct repeated_list *)self)->count;
}

static int repeated_list_get(const struct policy_list *self, size_t index, struct arena *arena,
                             struct policy_value *ret)
{
    const struct repeated_list *view = (const struct repeated_list *)self;
    const void *p = (const char *)view->items + index * field_type_size(view->type);
    const struct schema_message *schema = view->schema;
    if (view->type == PROTOBUF_C_TYPE_MESSAGE && !schema) {
        schema = schema_message_find((*(const ProtobufCMessage *const *)p)->descriptor);
    }
    int rc = item_value(p, view->type, view->descriptor, schema, arena, ret);
    return rc == 1 ? 0 : rc;
}

static const struct policy_list_ops repeated_list_ops = {.size = repeated_list_size,
                                                         .get = repeated_list_get};

int message_view_make(const ProtobufCMessage *message, struct arena *arena,
                      struct policy_value *ret)
{
    const struct schema_message *schema = message ? schema_message_find(message->descriptor) : NULL;
    if (!message) {
        *ret = policy_absent();
        return 0;
    }
    if (!schema) {
        return -STATUS_INTERNAL;
    }
    int rc = message_value(message, schema, arena, ret);
    return rc == 1 ? 0 : rc;
}

int message_view_make_list(const ProtobufCMessage *const *messages, size_t count,
                           struct arena *arena, struct policy_value *ret)
{
    *ret = policy_absent();
    if (count == 0) {
        return 0;
    }
    struct repeated_list *view = arena_alloc(arena, sizeof *view);
    if (!view) {
        return NO_ROOM;
    }
    *view = (struct repeated_list){{&repeated_list_ops},    messages, count,
                                   PROTOBUF_C_TYPE_MESSAGE, NULL,     NULL};
    *ret = policy_list(&view->list);
    return 0;
}
