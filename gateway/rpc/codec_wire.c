/* Protobuf's wire format: a check of our own, then protobuf-c, then what it leaves undone.
 * protobuf-c 1.4 recurses without a limit, cuts strings at NUL and takes any bytes as text. */
#include "gateway/rpc/codec.h"

#include <stdlib.h>

#include "gateway/rpc/codec_field.h"
#include "policy/base/utf8.h"

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,
};

/* What the check of one message and all below it found. */
struct check {
    size_t fields_left;
    bool has_unknown;
    bool has_map;
    bool takes_any_text; /* but for a NUL, where C would cut it */
    uint8_t *mends;      /* the bytes, where text that is none is to be mended; or NULL */
    struct error *err;
};

static int fail(struct check *c, const ProtobufCMessageDescriptor *d, const char *what)
{
    return error_set(c->err, STATUS_INVALID_ARGUMENT, "the bytes are not a well-formed %s: %s",
                     d->short_name, what);
}

static bool read_varint(struct bytes *in, uint64_t *ret)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte;
        if (!bytes_read_u8(in, &byte)) {
            return false;
        }
        v |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (!(byte & 0x80)) {
            *ret = v;
            return true;
        }
    }
    return false;
}

static int check_message(struct check *c, const struct schema_message *schema, struct str bytes,
                         unsigned depth);

/* Each byte that is no part of a character becomes '?': the length stays. */
static void mend_text(uint8_t *bytes, size_t len)
{
    uint32_t ignored;
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        n = utf8_decode(str_make(bytes + i, len - i), &ignored);
        if (n == 0) {
            bytes[i] = '?';
        }
    }
}

static int check_text(struct check *c, const ProtobufCMessageDescriptor *d,
                      const ProtobufCFieldDescriptor *f, struct str text)
{
    bool is_text = utf8_is_valid(text);
    if (!is_text && c->mends) {
        mend_text(c->mends + ((const uint8_t *)text.ptr - c->mends), text.len);
        is_text = true;
    }
    if (str_has_nul(text) || (!is_text && !c->takes_any_text)) {
        return error_set(c->err, STATUS_INVALID_ARGUMENT,
                         "%s.%s is not valid UTF-8, or holds a NUL character", d->short_name,
                         f->name);
    }
    return 0;
}

/* The content of a length-delimited field; f is NULL for an unknown one. */
static int check_bytes(struct check *c, const struct schema_message *schema,
                       const ProtobufCFieldDescriptor *f, struct str content, unsigned depth)
{
    if (!f) {
        return 0;
    }
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        return check_text(c, schema->descriptor, f, content);
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        const struct schema_field *field = &schema->fields[f - schema->descriptor->fields];
        c->has_map = c->has_map || field->is_map;
        return check_message(c, field->message, content, depth + 1);
    }
    return 0;
}

/* What follows a field's tag. */
static int check_value(struct check *c, const struct schema_message *schema, struct bytes *in,
                       uint64_t tag, unsigned depth)
{
    const ProtobufCMessageDescriptor *d = schema->descriptor;
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field(d, (unsigned)(tag >> 3));
    uint64_t number;
    struct str content;
    bool ok;
    switch ((enum wire_type)(tag & 7)) {
    case WIRE_VARINT:
        ok = read_varint(in, &number);
        break;
    case WIRE_FIXED64:
        ok = bytes_read_view(in, 8, &content);
        break;
    case WIRE_FIXED32:
        ok = bytes_read_view(in, 4, &content);
        break;
    case WIRE_BYTES:
        ok = read_varint(in, &number) && number <= bytes_left(in) &&
             bytes_read_view(in, (size_t)number, &content);
        if (ok) {
            return check_bytes(c, schema, f, content, depth);
        }
        break;
    default:
        return fail(c, d, "groups are not supported");
    }
    return ok ? 0 : fail(c, d, "a field is cut off");
}

static int check_message(struct check *c, const struct schema_message *schema, struct str bytes,
                         unsigned depth)
{
    const ProtobufCMessageDescriptor *d = schema->descriptor;
    struct bytes in = bytes_over(bytes.ptr, bytes.len);
    if (depth > CODEC_DEPTH_MAX) {
        return fail(c, d, "nested too deeply");
    }
    while (bytes_left(&in) > 0) {
        uint64_t tag;
        if (!read_varint(&in, &tag) || tag >> 3 == 0 || tag >> 32 != 0) {
            return fail(c, d, "not a field's tag");
        }
        if (c->fields_left == 0) {
            return fail(c, d, "too many fields");
        }
        c->fields_left--;
        if (!protobuf_c_message_descriptor_get_field(d, (unsigned)(tag >> 3))) {
            c->has_unknown = true;
        }
        int status = check_value(c, schema, &in, tag, depth);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* protobuf-c's memory, from an arena. */
struct unpack {
    struct arena *arena;
    bool is_full;
};

static void *unpack_alloc(void *data, size_t size)
{
    struct unpack *u = data;
    void *p = arena_alloc(u->arena, size);
    u->is_full = u->is_full || !p;
    return p;
}

static void unpack_free(void *data, void *p)
{
    (void)data;
    (void)p; /* dies with the arena */
}

static int entry_order(const void *a, const void *b)
{
    const ProtobufCMessage *x = **(ProtobufCMessage * *const *)a;
    const ProtobufCMessage *y = **(ProtobufCMessage * *const *)b;
    const ProtobufCFieldDescriptor *key = &x->descriptor->fields[0];
    const void *p = field_at(x, key);
    const void *q = field_at(y, key);
    int order = key->type == PROTOBUF_C_TYPE_STRING ? strcmp(field_string(p), field_string(q))
                                                    : memcmp(p, q, field_element_size(key));
    if (order != 0) {
        return order;
    }
    uintptr_t first = (uintptr_t) * (ProtobufCMessage * *const *)a;
    uintptr_t second = (uintptr_t) * (ProtobufCMessage * *const *)b;
    return (first > second) - (first < second);
}

/* Of entries with one key the last is valid ("Maps" of protobuf's guide to the encoding). */
static bool map_normalize(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                          struct arena *arena)
{
    ProtobufCMessage **entries = *(ProtobufCMessage ***)field_at(m, f);
    size_t n = *field_count(m, f);
    ProtobufCMessage ***order = n > 1 ? arena_calloc(arena, n, sizeof(*order)) : NULL;
    if (n > 1 && !order) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const ProtobufCFieldDescriptor *value = &entries[i]->descriptor->fields[1];
        if (value->type == PROTOBUF_C_TYPE_MESSAGE && !field_message(field_at(entries[i], value))) {
            ProtobufCMessage *empty = codec_new(value->descriptor, arena);
            if (!empty) {
                return false;
            }
            memcpy(field_at(entries[i], value), &empty, sizeof(empty));
        }
        if (order) {
            order[i] = &entries[i];
        }
    }
    if (!order) {
        return true;
    }
    qsort(order, n, sizeof(*order), entry_order);
    for (size_t i = 0; i + 1 < n; i++) {
        const ProtobufCFieldDescriptor *key = &(*order[i])->descriptor->fields[0];
        const void *p = field_at(*order[i], key);
        const void *q = field_at(*order[i + 1], key);
        bool same = key->type == PROTOBUF_C_TYPE_STRING
                        ? strcmp(field_string(p), field_string(q)) == 0
                        : memcmp(p, q, field_element_size(key)) == 0;
        if (same) {
            *order[i] = NULL;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (entries[i]) {
            entries[kept++] = entries[i];
        }
    }
    *field_count(m, f) = kept;
    return true;
}

/* Drops unknown fields, mends maps, in m and all below it. */
static bool message_normalize(ProtobufCMessage *m, const struct schema_message *schema,
                              struct arena *arena)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    m->n_unknown_fields = 0;
    m->unknown_fields = NULL;
    for (unsigned i = 0; i < d->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        if (f->type != PROTOBUF_C_TYPE_MESSAGE || !field_is_set(m, f)) {
            continue;
        }
        if (schema->fields[i].is_map && !map_normalize(m, f, arena)) {
            return false;
        }
        size_t n = field_is_repeated(f) ? *field_count(m, f) : 1;
        for (size_t k = 0; k < n; k++) {
            ProtobufCMessage *below = field_is_repeated(f)
                                          ? *(ProtobufCMessage **)field_element(m, f, k)
                                          : *(ProtobufCMessage **)field_at(m, f);
            if (below && !message_normalize(below, schema->fields[i].message, arena)) {
                return false;
            }
        }
    }
    return true;
}

static int decode(const ProtobufCMessageDescriptor *descriptor, struct str bytes,
                  struct check check, struct arena *arena, ProtobufCMessage **ret,
                  struct error *err)
{
    const struct schema_message *schema = schema_message_find(descriptor);
    if (!schema) {
        return error_set(err, STATUS_INTERNAL, "%s is not a message of the API", descriptor->name);
    }
    check.err = err;
    int status = check_message(&check, schema, bytes, 1);
    if (status < 0) {
        return status;
    }
    struct unpack unpack = {.arena = arena};
    ProtobufCAllocator allocator = {unpack_alloc, unpack_free, &unpack};
    ProtobufCMessage *m = protobuf_c_message_unpack(
        descriptor, &allocator, bytes.len, (const uint8_t *)(bytes.len > 0 ? bytes.ptr : ""));
    if (m && (check.has_unknown || check.has_map) && !message_normalize(m, schema, arena)) {
        m = NULL;
        unpack.is_full = true;
    }
    if (!m && unpack.is_full) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "the %s is too large",
                         descriptor->short_name);
    }
    if (!m) {
        return fail(&check, descriptor, "a field has the wrong type");
    }
    *ret = m;
    return 0;
}

int codec_decode_wire(const ProtobufCMessageDescriptor *descriptor, struct str bytes,
                      struct arena *arena, ProtobufCMessage **ret, struct error *err)
{
    const struct check check = {.fields_left = CODEC_FIELDS_MAX};
    return decode(descriptor, bytes, check, arena, ret, err);
}

int codec_decode_stored(const ProtobufCMessageDescriptor *descriptor, struct str bytes,
                        struct arena *arena, ProtobufCMessage **ret, struct error *err)
{
    const struct check check = {.fields_left = SIZE_MAX, .takes_any_text = true};
    return decode(descriptor, bytes, check, arena, ret, err);
}

int codec_encode_wire(const ProtobufCMessage *message, struct buf *out, struct error *err)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    if (size == 0) {
        return 0;
    }
    uint8_t *to = buf_reserve(out, size);
    if (!to) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "the %s of %zu bytes is too large",
                         message->descriptor->short_name, size);
    }
    out->len += protobuf_c_message_pack(message, to);
    return 0;
}

int codec_encode_wire_mended(const ProtobufCMessage *message, struct buf *out, struct error *err)
{
    const struct schema_message *schema = schema_message_find(message->descriptor);
    const size_t from = out->len;
    int status = codec_encode_wire(message, out, err);
    if (status == 0 && schema && out->len > from) {
        struct error ignored; /* what was just made is well-formed */
        struct check check = {.fields_left = SIZE_MAX, .mends = out->ptr + from, .err = &ignored};
        (void)check_message(&check, schema, str_make(out->ptr + from, out->len - from), 1);
    }
    return status;
}
