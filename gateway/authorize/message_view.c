#include "gateway/authorize/message_view.h"

#include <assert.h>
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

/* Each function that makes a value returns it, ABSENT when the key counts as absent, or
 * policy_unreadable(), as `get` of policy_map_ops does. */

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

static struct policy_value no_room(void)
{
    return policy_unreadable(-STATUS_RESOURCE_EXHAUSTED);
}

/* What `next` returns: 1 with *ret, or why there is none. */
static int give(struct policy_value v, struct policy_value *ret)
{
    if (v.kind == POLICY_ABSENT) {
        return policy_value_status(v);
    }
    *ret = v;
    return 1;
}

static struct policy_value text_value(char *text)
{
    if (!text) {
        return no_room();
    }
    return policy_cstring(text);
}

static struct policy_value base64_value(const ProtobufCBinaryData *data, struct arena *arena)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = arena_alloc(arena, data->len / 3 * 4 + 5);
    if (!text) {
        return no_room();
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
    return policy_string(str_make(text, (size_t)(out - text)));
}

static struct policy_value timestamp_value(const ProtobufCMessage *m, struct arena *arena)
{
    const Google__Protobuf__Timestamp *t = (const Google__Protobuf__Timestamp *)m;
    char text[WALL_TIME_TEXT_SIZE];
    if (t->nanos < 0 || !wall_time_format(t->seconds, (uint32_t)t->nanos, text)) {
        return policy_unreadable(-STATUS_INVALID_ARGUMENT);
    }
    return text_value(arena_strdup(arena, text));
}

static struct policy_value duration_value(const ProtobufCMessage *m, struct arena *arena)
{
    const Google__Protobuf__Duration *d = (const Google__Protobuf__Duration *)m;
    bool is_negative = d->seconds < 0 || d->nanos < 0;
    uint64_t seconds = d->seconds < 0 ? 0 - (uint64_t)d->seconds : (uint64_t)d->seconds;
    uint32_t nanos = d->nanos < 0 ? 0 - (uint32_t)d->nanos : (uint32_t)d->nanos;
    char *text = nanos ? arena_printf(arena, "%s%" PRIu64 ".%09" PRIu32 "s", is_negative ? "-" : "",
                                      seconds, nanos)
                       : arena_printf(arena, "%s%" PRIu64 "s", is_negative ? "-" : "", seconds);
    return text_value(text);
}

static struct policy_value struct_value(const Google__Protobuf__Struct *object, struct arena *arena)
{
    struct struct_map *view = arena_alloc(arena, sizeof *view);
    if (!view) {
        return no_room();
    }
    *view = (struct struct_map){{&struct_map_ops}, object};
    return policy_map(&view->map);
}

static struct policy_value list_value(const Google__Protobuf__ListValue *values,
                                      struct arena *arena)
{
    struct value_list *view = arena_alloc(arena, sizeof *view);
    if (!view) {
        return no_room();
    }
    *view = (struct value_list){{&value_list_ops}, values};
    return policy_list(&view->list);
}

static struct policy_value json_value(const Google__Protobuf__Value *value, struct arena *arena)
{
    switch (value ? value->kind_case : GOOGLE__PROTOBUF__VALUE__KIND__NOT_SET) {
    case GOOGLE__PROTOBUF__VALUE__KIND_NUMBER_VALUE:
        return policy_double(value->number_value);
    case GOOGLE__PROTOBUF__VALUE__KIND_STRING_VALUE:
        return policy_cstring(value->string_value);
    case GOOGLE__PROTOBUF__VALUE__KIND_BOOL_VALUE:
        return policy_bool(value->bool_value);
    case GOOGLE__PROTOBUF__VALUE__KIND_STRUCT_VALUE:
        return struct_value(value->struct_value, arena);
    case GOOGLE__PROTOBUF__VALUE__KIND_LIST_VALUE:
        return list_value(value->list_value, arena);
    case GOOGLE__PROTOBUF__VALUE__KIND_NULL_VALUE:
    case GOOGLE__PROTOBUF__VALUE__KIND__NOT_SET:
    case _GOOGLE__PROTOBUF__VALUE__KIND__CASE_IS_INT_SIZE:
        break;
    }
    return policy_null();
}

static struct policy_value well_known_value(const ProtobufCMessage *m,
                                            const struct schema_message *schema,
                                            struct arena *arena)
{
    switch (schema->kind) {
    case SCHEMA_TIMESTAMP:
        return timestamp_value(m, arena);
    case SCHEMA_DURATION:
        return duration_value(m, arena);
    case SCHEMA_STRUCT:
        return struct_value((const Google__Protobuf__Struct *)m, arena);
    case SCHEMA_VALUE:
        return json_value((const Google__Protobuf__Value *)m, arena);
    case SCHEMA_LIST_VALUE:
        return list_value((const Google__Protobuf__ListValue *)m, arena);
    case SCHEMA_PLAIN:
    case SCHEMA_MAP_ENTRY:
        break;
    }
    return policy_unreadable(-STATUS_INTERNAL);
}

static struct policy_value message_value(const ProtobufCMessage *m,
                                         const struct schema_message *schema, struct arena *arena)
{
    if (schema->kind != SCHEMA_PLAIN) {
        return well_known_value(m, schema, arena);
    }
    struct message_map *view = arena_alloc(arena, sizeof *view);
    if (!view) {
        return no_room();
    }
    *view = (struct message_map){{&message_map_ops}, m, schema};
    return policy_map(&view->map);
}

static struct policy_value enum_value(const ProtobufCEnumDescriptor *descriptor, int number)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(descriptor, number);
    return v ? policy_cstring(v->name) : policy_double(number);
}

/* The item at p, whatever its value. */
static inline struct policy_value item_value(const void *p, ProtobufCType type,
                                             const void *descriptor,
                                             const struct schema_message *schema,
                                             struct arena *arena)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
        return policy_double(*(const int32_t *)p);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        return policy_double(*(const uint32_t *)p);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return text_value(arena_printf(arena, "%" PRId64, *(const int64_t *)p));
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return text_value(arena_printf(arena, "%" PRIu64, *(const uint64_t *)p));
    case PROTOBUF_C_TYPE_FLOAT:
        return policy_double((double)*(const float *)p);
    case PROTOBUF_C_TYPE_DOUBLE:
        return policy_double(*(const double *)p);
    case PROTOBUF_C_TYPE_BOOL:
        return policy_bool(*(const protobuf_c_boolean *)p);
    case PROTOBUF_C_TYPE_ENUM:
        return enum_value(descriptor, *(const int *)p);
    case PROTOBUF_C_TYPE_STRING:
        return policy_cstring(*(const char *const *)p);
    case PROTOBUF_C_TYPE_BYTES:
        return base64_value(p, arena);
    case PROTOBUF_C_TYPE_MESSAGE:
        return message_value(*(const ProtobufCMessage *const *)p, schema, arena);
    }
    return policy_unreadable(-STATUS_INTERNAL);
}

/* Is there something that a rule may see? Fields without presence of their own: when they differ
 * from their zero. */
static inline bool field_is_present(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const void *p = field_at(m, f);
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        return *field_count(m, f) > 0;
    }
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        bool is_pointer = f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING;
        return *field_case(m, f) == f->id && (!is_pointer || *(const void *const *)p);
    }
    return !field_value_is_default(f, p);
}

static struct policy_value repeated_value(const ProtobufCMessage *m,
                                          const ProtobufCFieldDescriptor *f,
                                          const struct schema_field *sf, struct arena *arena)
{
    const void *items = *(const void *const *)((const char *)m + f->offset);
    size_t count = *(const size_t *)(const void *)((const char *)m + f->quantifier_offset);
    if (sf->is_map) {
        struct entries_map *view = arena_alloc(arena, sizeof *view);
        if (!view) {
            return no_room();
        }
        *view = (struct entries_map){{&entries_map_ops}, items, count, sf->message};
        return policy_map(&view->map);
    }
    struct repeated_list *view = arena_alloc(arena, sizeof *view);
    if (!view) {
        return no_room();
    }
    *view = (struct repeated_list){{&repeated_list_ops}, items,      count, f->type,
                                   f->descriptor,        sf->message};
    return policy_list(&view->list);
}

static struct policy_value field_value(const ProtobufCMessage *m,
                                       const struct schema_message *schema, unsigned i,
                                       struct arena *arena)
{
    const ProtobufCFieldDescriptor *f = &schema->descriptor->fields[i];
    const struct schema_field *sf = &schema->fields[i];
    if (!field_is_present(m, f)) {
        return policy_absent();
    }
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        return repeated_value(m, f, sf, arena);
    }
    return item_value((const char *)m + f->offset, f->type, f->descriptor, sf->message, arena);
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

static struct policy_value message_map_get(const struct policy_map *self, struct policy_value key,
                                           struct arena *arena)
{
    const struct message_map *view = (const struct message_map *)self;
    if (key.kind != POLICY_STRING) {
        return policy_absent();
    }
    const struct schema_field *fields = view->schema->fields;
    unsigned count = view->schema->descriptor->n_fields;
    for (unsigned i = 0; i < count; i++) {
        if (fields[i].json_name_len == key.len &&
            str_same_bytes(fields[i].json_name, key.as.text, key.len)) {
            return field_value(view->message, view->schema, i, arena);
        }
    }
    return policy_absent();
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
            return ret_value ? give(field_value(view->message, view->schema, i, arena), ret_value)
                             : 1;
        }
    }
    return 0;
}

static const struct policy_map_ops message_map_ops = {
    .size = message_map_size, .get = message_map_get, .next = message_map_next};

/* A map entry's fields are key = 1 and value = 2, in this order. */
static struct policy_value entry_key(const struct entries_map *view, size_t i, struct arena *arena)
{
    const ProtobufCFieldDescriptor *f = &view->schema->descriptor->fields[0];
    struct policy_value key =
        item_value(field_at(view->entries[i], f), f->type, f->descriptor, NULL, arena);
    /* JSON has text keys only. */
    if (key.kind == POLICY_BOOL) {
        return policy_cstring(key.as.truth ? "true" : "false");
    }
    return key.kind == POLICY_DOUBLE ? text_value(arena_printf(arena, "%.0f", key.as.d)) : key;
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

/* Is entry i under that name? 1, 0, or a negative status. */
static int entry_has_name(const struct entries_map *view, size_t i, struct str name,
                          struct arena *arena)
{
    const ProtobufCFieldDescriptor *f = &view->schema->descriptor->fields[0];
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        return name_is(name, field_string(field_at(view->entries[i], f)));
    }
    struct policy_value key = entry_key(view, i, arena);
    return key.kind == POLICY_STRING ? str_eq(policy_value_str(key), name)
                                     : policy_value_status(key);
}

static struct policy_value entry_value(const struct entries_map *view, size_t i,
                                       struct arena *arena)
{
    const ProtobufCFieldDescriptor *f = &view->schema->descriptor->fields[1];
    const void *p = field_at(view->entries[i], f);
    if (f->type == PROTOBUF_C_TYPE_MESSAGE && !field_message(p)) {
        return policy_unreadable(-STATUS_INTERNAL);
    }
    return item_value(p, f->type, f->descriptor, view->schema->fields[1].message, arena);
}

static size_t entries_map_size(const struct policy_map *self)
{
    return ((const struct entries_map *)self)->count;
}

static struct policy_value entries_map_get(const struct policy_map *self, struct policy_value key,
                                           struct arena *arena)
{
    const struct entries_map *view = (const struct entries_map *)self;
    if (key.kind != POLICY_STRING) {
        return policy_absent();
    }
    /* From the end: of two entries with one key the later counts, as in protobuf. */
    for (size_t i = view->count; i-- > 0;) {
        int rc = entry_has_name(view, i, policy_value_str(key), arena);
        if (rc) {
            return rc == 1 ? entry_value(view, i, arena) : policy_unreadable(rc);
        }
    }
    return policy_absent();
}

static int entries_map_next(const struct policy_map *self, size_t *cursor, struct arena *arena,
                            struct policy_value *ret_key, struct policy_value *ret_value)
{
    const struct entries_map *view = (const struct entries_map *)self;
    if (*cursor >= view->count) {
        return 0;
    }
    size_t i = (*cursor)++;
    int rc = give(entry_key(view, i, arena), ret_key);
    return rc == 1 && ret_value ? give(entry_value(view, i, arena), ret_value) : rc;
}

static const struct policy_map_ops entries_map_ops = {
    .size = entries_map_size, .get = entries_map_get, .next = entries_map_next};

static size_t struct_map_size(const struct policy_map *self)
{
    return ((const struct struct_map *)self)->object->n_fields;
}

static struct policy_value struct_map_get(const struct policy_map *self, struct policy_value key,
                                          struct arena *arena)
{
    const Google__Protobuf__Struct *object = ((const struct struct_map *)self)->object;
    if (key.kind != POLICY_STRING) {
        return policy_absent();
    }
    for (size_t i = object->n_fields; i-- > 0;) {
        if (name_is(policy_value_str(key), object->fields[i]->key)) {
            return json_value(object->fields[i]->value, arena);
        }
    }
    return policy_absent();
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
    return ret_value ? give(json_value(entry->value, arena), ret_value) : 1;
}

static const struct policy_map_ops struct_map_ops = {
    .size = struct_map_size, .get = struct_map_get, .next = struct_map_next};

static size_t value_list_size(const struct policy_list *self)
{
    return ((const struct value_list *)self)->values->n_values;
}

static struct policy_value value_list_get(const struct policy_list *self, size_t index,
                                          struct arena *arena)
{
    return json_value(((const struct value_list *)self)->values->values[index], arena);
}

static const struct policy_list_ops value_list_ops = {.size = value_list_size,
                                                      .get = value_list_get};

static size_t repeated_list_size(const struct policy_list *self)
{
    return ((const struct repeated_list *)self)->count;
}

static struct policy_value repeated_list_get(const struct policy_list *self, size_t index,
                                             struct arena *arena)
{
    const struct repeated_list *view = (const struct repeated_list *)self;
    const void *p = (const char *)view->items + index * field_type_size(view->type);
    const struct schema_message *schema = view->schema;
    if (view->type == PROTOBUF_C_TYPE_MESSAGE && !schema) {
        schema = schema_message_find((*(const ProtobufCMessage *const *)p)->descriptor);
    }
    return item_value(p, view->type, view->descriptor, schema, arena);
}

static const struct policy_list_ops repeated_list_ops = {.size = repeated_list_size,
                                                         .get = repeated_list_get};

struct policy_value message_view_make_as(const ProtobufCMessage *message,
                                         const struct schema_message *schema, struct arena *arena)
{
    if (!message) {
        return policy_absent();
    }
    assert(schema->descriptor == message->descriptor);
    return message_value(message, schema, arena);
}

struct policy_value message_view_make(const ProtobufCMessage *message, struct arena *arena)
{
    const struct schema_message *schema = message ? schema_message_find(message->descriptor) : NULL;
    if (message && !schema) {
        return policy_unreadable(-STATUS_INTERNAL);
    }
    return message_view_make_as(message, schema, arena);
}

struct policy_value message_view_make_list(const ProtobufCMessage *const *messages, size_t count,
                                           struct arena *arena)
{
    if (count == 0) {
        return policy_absent();
    }
    struct repeated_list *view = arena_alloc(arena, sizeof *view);
    if (!view) {
        return no_room();
    }
    *view = (struct repeated_list){{&repeated_list_ops},    messages, count,
                                   PROTOBUF_C_TYPE_MESSAGE, NULL,     NULL};
    return policy_list(&view->list);
}
