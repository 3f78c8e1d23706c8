/* Messages as values: new, copy, merge, equal. */
#include "gateway/rpc/codec.h"

#include <stdlib.h>

#include "gateway/rpc/codec_field.h"

ProtobufCMessage *codec_new(const ProtobufCMessageDescriptor *descriptor, struct arena *arena)
{
    ProtobufCMessage *m = arena_zalloc(arena, descriptor->sizeof_message);
    if (m) {
        protobuf_c_message_init(descriptor, m);
    }
    return m;
}

/* Copies one element, deep. */
static bool value_copy(const ProtobufCFieldDescriptor *f, void *to, const void *from,
                       struct arena *arena)
{
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        const char *s = field_string(from);
        /* protobuf-c takes its own empty string for "unset", in a oneof too. */
        bool may_share = s[0] == '\0' && !field_is_oneof(f);
        char *copy =
            may_share ? (char *)(uintptr_t)protobuf_c_empty_string : arena_strdup(arena, s);
        memcpy(to, &copy, sizeof(copy));
        return copy != NULL;
    }
    if (f->type == PROTOBUF_C_TYPE_BYTES) {
        ProtobufCBinaryData data = *(const ProtobufCBinaryData *)from;
        data.data = data.len > 0 ? arena_memdup(arena, data.data, data.len) : NULL;
        memcpy(to, &data, sizeof(data));
        return data.len == 0 || data.data;
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        const ProtobufCMessage *m = field_message(from);
        ProtobufCMessage *copy = m ? codec_copy(m, arena) : NULL;
        memcpy(to, &copy, sizeof(copy));
        return !m || copy;
    }
    memcpy(to, from, field_element_size(f));
    return true;
}

/* The entry of a map field with the same key as `entry`, or NULL. */
static ProtobufCMessage **map_find(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                                   const ProtobufCMessage *entry);

static bool field_is_map(const ProtobufCFieldDescriptor *f)
{
    if (!field_is_repeated(f) || f->type != PROTOBUF_C_TYPE_MESSAGE) {
        return false;
    }
    const struct schema_message *entry = schema_message_find(f->descriptor);
    return entry && entry->kind == SCHEMA_MAP_ENTRY;
}

/* Appends the elements of src to dst; for maps, an element of the same key gives way. */
static bool repeated_append(ProtobufCMessage *dst, const ProtobufCMessage *src,
                            const ProtobufCFieldDescriptor *f, struct arena *arena)
{
    size_t size = field_element_size(f);
    size_t had = *field_count(dst, f);
    size_t more = *field_count(src, f);
    if (more == 0) {
        return true;
    }
    char *all = arena_calloc(arena, had + more, size);
    if (!all) {
        return false;
    }
    if (had > 0) {
        memcpy(all, field_element(dst, f, 0), had * size);
    }
    bool is_map = had > 0 && field_is_map(f);
    size_t count = had;
    for (size_t i = 0; i < more; i++) {
        const void *from = field_element(src, f, i);
        ProtobufCMessage **same = is_map ? map_find(dst, f, field_message(from)) : NULL;
        /* `same` points into dst's old array; its place in the new one is as far along. */
        char *to =
            same ? all + ((char *)same - (char *)field_element(dst, f, 0)) : all + count++ * size;
        if (!value_copy(f, to, from, arena)) {
            return false;
        }
    }
    memcpy(field_at(dst, f), &all, sizeof(all));
    *field_count(dst, f) = count;
    return true;
}

/* Empties the oneof of f in m, so that no pointer of another member stays in the union. */
static void oneof_clear(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *other = &d->fields[i];
        if (field_is_oneof(other) && other->quantifier_offset == f->quantifier_offset) {
            memset(field_at(m, other), 0, field_element_size(other));
        }
    }
    *field_case(m, f) = 0;
}

static bool field_merge(ProtobufCMessage *dst, const ProtobufCMessage *src,
                        const ProtobufCFieldDescriptor *f, struct arena *arena)
{
    if (!field_is_set(src, f)) {
        return true;
    }
    if (field_is_repeated(f)) {
        return repeated_append(dst, src, f, arena);
    }
    bool both_set = field_is_set(dst, f);
    if (f->type == PROTOBUF_C_TYPE_MESSAGE && both_set && field_message(field_at(dst, f))) {
        const ProtobufCMessage *from = field_message(field_at(src, f));
        ProtobufCMessage *to = *(ProtobufCMessage **)field_at(dst, f);
        return !from || codec_merge(to, from, arena, NULL) == 0;
    }
    if (field_is_oneof(f)) {
        oneof_clear(dst, f);
        *field_case(dst, f) = f->id;
    }
    return value_copy(f, field_at(dst, f), field_at(src, f), arena);
}

int codec_merge(ProtobufCMessage *dst, const ProtobufCMessage *src, struct arena *arena,
                struct error *err)
{
    const ProtobufCMessageDescriptor *d = dst->descriptor;
    if (src->descriptor != d) {
        return error_set(err, STATUS_INTERNAL, "cannot merge a %s into a %s", src->descriptor->name,
                         d->name);
    }
    for (unsigned i = 0; i < d->n_fields; i++) {
        if (!field_merge(dst, src, &d->fields[i], arena)) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED, "the merged %s is too large",
                             d->short_name);
        }
    }
    return 0;
}

ProtobufCMessage *codec_copy(const ProtobufCMessage *message, struct arena *arena)
{
    ProtobufCMessage *copy = codec_new(message->descriptor, arena);
    return copy && codec_merge(copy, message, arena, NULL) == 0 ? copy : NULL;
}

static bool value_equal(const ProtobufCFieldDescriptor *f, const void *a, const void *b)
{
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        return strcmp(field_string(a), field_string(b)) == 0;
    }
    if (f->type == PROTOBUF_C_TYPE_BYTES) {
        const ProtobufCBinaryData *x = a;
        const ProtobufCBinaryData *y = b;
        return x->len == y->len && (x->len == 0 || memcmp(x->data, y->data, x->len) == 0);
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        return codec_equal(field_message(a), field_message(b));
    }
    return memcmp(a, b, field_element_size(f)) == 0;
}

static bool entry_keys_equal(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    const ProtobufCFieldDescriptor *key = &a->descriptor->fields[0];
    return value_equal(key, field_at(a, key), field_at(b, key));
}

static ProtobufCMessage **map_find(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                                   const ProtobufCMessage *entry)
{
    for (size_t i = 0; i < *field_count(m, f); i++) {
        ProtobufCMessage **other = field_element(m, f, i);
        if (entry_keys_equal(*other, entry)) {
            return other;
        }
    }
    return NULL;
}

static int entry_cmp(const void *a, const void *b)
{
    const ProtobufCMessage *x = *(const ProtobufCMessage *const *)a;
    const ProtobufCMessage *y = *(const ProtobufCMessage *const *)b;
    const ProtobufCFieldDescriptor *key = &x->descriptor->fields[0];
    const void *p = field_at(x, key);
    const void *q = field_at(y, key);
    return key->type == PROTOBUF_C_TYPE_STRING ? strcmp(field_string(p), field_string(q))
                                               : memcmp(p, q, field_element_size(key));
}

/* Maps of n entries each, with distinct keys. Sorted copies, since a client chooses n. */
static bool map_equal_sorted(const void *a, const void *b, size_t n)
{
    const ProtobufCMessage **x = malloc(n * sizeof(*x));
    const ProtobufCMessage **y = malloc(n * sizeof(*y));
    bool equal = x && y; /* without memory: "changed", which is the safe answer */
    if (equal) {
        memcpy(x, a, n * sizeof(*x));
        memcpy(y, b, n * sizeof(*y));
        qsort(x, n, sizeof(*x), entry_cmp);
        qsort(y, n, sizeof(*y), entry_cmp);
    }
    for (size_t i = 0; equal && i < n; i++) {
        equal = codec_equal(x[i], y[i]);
    }
    free(x);
    free(y);
    return equal;
}

static bool repeated_equal(const ProtobufCMessage *a, const ProtobufCMessage *b,
                           const ProtobufCFieldDescriptor *f)
{
    size_t n = *field_count(a, f);
    if (n != *field_count(b, f)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!value_equal(f, field_element(a, f, i), field_element(b, f, i))) {
            return field_is_map(f) &&
                   map_equal_sorted(field_element(a, f, 0), field_element(b, f, 0), n);
        }
    }
    return true;
}

bool codec_equal(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    if (!a || !b || a == b) {
        return a == b;
    }
    if (a->descriptor != b->descriptor) {
        return false;
    }
    const ProtobufCMessageDescriptor *d = a->descriptor;
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        bool is_set = field_is_set(a, f);
        if (is_set != field_is_set(b, f)) {
            return false;
        }
        if (is_set && (field_is_repeated(f) ? !repeated_equal(a, b, f)
                                            : !value_equal(f, field_at(a, f), field_at(b, f)))) {
            return false;
        }
    }
    return true;
}
