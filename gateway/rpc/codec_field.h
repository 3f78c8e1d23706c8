#ifndef GATEWAY_RPC_CODEC_FIELD_H
#define GATEWAY_RPC_CODEC_FIELD_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "policy/base/str.h"

/* A message's members by their descriptors. For the codec and the policy's view: the layout is that
 * of protobuf-c's generated structs, proto3 only. */

static inline void *field_at(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return (char *)(uintptr_t)m + f->offset;
}

static inline bool field_is_repeated(const ProtobufCFieldDescriptor *f)
{
    return f->label == PROTOBUF_C_LABEL_REPEATED;
}

static inline bool field_is_oneof(const ProtobufCFieldDescriptor *f)
{
    return (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

/* The number of elements; repeated fields only. */
static inline size_t *field_count(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return (size_t *)(void *)((char *)(uintptr_t)m + f->quantifier_offset);
}

/* The number of the oneof's member that is set, or 0; oneof members only. */
static inline uint32_t *field_case(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return (uint32_t *)(void *)((char *)(uintptr_t)m + f->quantifier_offset);
}

static inline size_t field_type_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM:
    default:
        return 4;
    }
}

static inline size_t field_element_size(const ProtobufCFieldDescriptor *f)
{
    return field_type_size(f->type);
}

/* The i-th element of a repeated field. */
static inline void *field_element(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f,
                                  size_t i)
{
    return *(char **)field_at(m, f) + i * field_element_size(f);
}

/* NULL and "" are the same string. */
static inline const char *field_string(const void *p)
{
    const char *s = *(const char *const *)p;
    return s ? s : "";
}

static inline const ProtobufCMessage *field_message(const void *p)
{
    return *(const ProtobufCMessage *const *)p;
}

/* A scalar that proto3 does not put on the wire. */
static inline bool field_value_is_default(const ProtobufCFieldDescriptor *f, const void *p)
{
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        return field_string(p)[0] == '\0';
    }
    if (f->type == PROTOBUF_C_TYPE_BYTES) {
        return ((const ProtobufCBinaryData *)p)->len == 0;
    }
    if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
        return field_message(p) == NULL;
    }
    return field_element_size(f) == 8 ? *(const uint64_t *)p == 0 : *(const uint32_t *)p == 0;
}

/* A member that would be on the wire. */
static inline bool field_is_set(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    if (field_is_repeated(f)) {
        return *field_count(m, f) > 0;
    }
    if (field_is_oneof(f)) {
        return *field_case(m, f) == f->id;
    }
    return !field_value_is_default(f, field_at(m, f));
}

#endif
