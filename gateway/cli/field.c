#include "gateway/cli/field.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gateway/rpc/codec.h"
#include "google/protobuf/timestamp.pb-c.h"

enum { NAME_MAX_BYTES = 64 };

static const ProtobufCFieldDescriptor *first_field(const ProtobufCMessageDescriptor *d,
                                                   const char *path, const char **ret_rest)
{
    const char *dot = strchr(path, '.');
    size_t n = dot ? (size_t)(dot - path) : strlen(path);
    char name[NAME_MAX_BYTES];
    assert(n < sizeof name);
    memcpy(name, path, n);
    name[n] = '\0';
    *ret_rest = dot ? dot + 1 : NULL;
    return protobuf_c_message_descriptor_get_field_by_name(d, name);
}

static void *member(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return (uint8_t *)(uintptr_t)m + f->offset;
}

static bool oneof_is_other(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
    return (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
           *(const uint32_t *)((const uint8_t *)m + f->quantifier_offset) != f->id;
}

bool field_has(const ProtobufCMessage *message, const char *path)
{
    const ProtobufCMessageDescriptor *d = message->descriptor;
    while (d && path) {
        const char *rest;
        const ProtobufCFieldDescriptor *f = first_field(d, path, &rest);
        if (!f) {
            return false;
        }
        d = f->type == PROTOBUF_C_TYPE_MESSAGE ? f->descriptor : NULL;
        path = rest;
    }
    return path == NULL;
}

/* Walks to the message that holds the last field of the path; NULL when one on the way is unset. */
static const ProtobufCMessage *walk(const ProtobufCMessage *m, const char *path,
                                    const ProtobufCFieldDescriptor **ret_field)
{
    while (m) {
        const char *rest;
        const ProtobufCFieldDescriptor *f = first_field(m->descriptor, path, &rest);
        assert(f);
        if (oneof_is_other(m, f)) {
            return NULL;
        }
        if (!rest) {
            *ret_field = f;
            return m;
        }
        assert(f->type == PROTOBUF_C_TYPE_MESSAGE && f->label != PROTOBUF_C_LABEL_REPEATED);
        m = *(ProtobufCMessage *const *)member(m, f);
        path = rest;
    }
    return NULL;
}

static const char *time_text(const ProtobufCMessage *m, struct arena *arena)
{
    const Google__Protobuf__Timestamp *t = (const Google__Protobuf__Timestamp *)m;
    time_t seconds = (time_t)t->seconds;
    struct tm tm;
    char text[32];
    if (!gmtime_r(&seconds, &tm) || strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm) == 0) {
        return "";
    }
    return arena_strdup(arena, text);
}

static const char *enum_text(const ProtobufCFieldDescriptor *f, int value)
{
    const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(f->descriptor, value);
    return v ? v->name : "?";
}

const char *field_text(const ProtobufCMessage *message, const char *path, struct arena *arena)
{
    const ProtobufCFieldDescriptor *f = NULL;
    const ProtobufCMessage *m = walk(message, path, &f);
    const char *text = "";
    if (!m) {
        return text;
    }
    const void *p = member(m, f);
    if (f->type == PROTOBUF_C_TYPE_STRING) {
        text = *(const char *const *)p;
    } else if (f->type == PROTOBUF_C_TYPE_ENUM) {
        text = enum_text(f, *(const int *)p);
    } else if (f->type == PROTOBUF_C_TYPE_UINT32) {
        text = arena_printf(arena, "%" PRIu32, *(const uint32_t *)p);
    } else if (f->type == PROTOBUF_C_TYPE_BOOL) {
        text = *(const protobuf_c_boolean *)p ? "true" : "false";
    } else if (f->type == PROTOBUF_C_TYPE_MESSAGE && *(ProtobufCMessage *const *)p &&
               f->descriptor == &google__protobuf__timestamp__descriptor) {
        text = time_text(*(ProtobufCMessage *const *)p, arena);
    }
    return text ? text : "";
}

ProtobufCMessage *field_message(const ProtobufCMessage *message, const char *path)
{
    const ProtobufCFieldDescriptor *f = NULL;
    const ProtobufCMessage *m = walk(message, path, &f);
    return m ? *(ProtobufCMessage *const *)member(m, f) : NULL;
}

ProtobufCMessage *field_make(ProtobufCMessage *m, const char *path, struct arena *arena)
{
    while (m && path) {
        const char *rest;
        const ProtobufCFieldDescriptor *f = first_field(m->descriptor, path, &rest);
        assert(f && f->type == PROTOBUF_C_TYPE_MESSAGE && f->label != PROTOBUF_C_LABEL_REPEATED);
        ProtobufCMessage **p = member(m, f);
        if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
            uint32_t *which = (uint32_t *)((uint8_t *)m + f->quantifier_offset);
            *p = *which == f->id ? *p : NULL;
            *which = f->id;
        }
        if (!*p) {
            *p = codec_new(f->descriptor, arena);
        }
        m = *p;
        path = rest;
    }
    return m;
}

/* Where the last field of the path lives, with the messages on the way made; NULL: arena full. */
static void *place(ProtobufCMessage *message, const char *path, struct arena *arena,
                   const ProtobufCFieldDescriptor **ret_field, ProtobufCMessage **ret_owner)
{
    const char *dot = strrchr(path, '.');
    ProtobufCMessage *m = message;
    if (dot) {
        char *front = arena_strndup(arena, path, (size_t)(dot - path));
        m = front ? field_make(message, front, arena) : NULL;
    }
    if (!m) {
        return NULL;
    }
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, dot ? dot + 1 : path);
    assert(f);
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        *(uint32_t *)((uint8_t *)m + f->quantifier_offset) = f->id;
    }
    *ret_field = f;
    *ret_owner = m;
    return member(m, f);
}

bool field_set_text(ProtobufCMessage *message, const char *path, const char *text,
                    struct arena *arena)
{
    const ProtobufCFieldDescriptor *f;
    ProtobufCMessage *owner;
    const char **p = place(message, path, arena, &f, &owner);
    assert(!p || (f->type == PROTOBUF_C_TYPE_STRING && f->label != PROTOBUF_C_LABEL_REPEATED));
    if (p) {
        *p = text;
    }
    return p != NULL;
}

bool field_set_u32(ProtobufCMessage *message, const char *path, uint32_t value, struct arena *arena)
{
    const ProtobufCFieldDescriptor *f;
    ProtobufCMessage *owner;
    uint32_t *p = place(message, path, arena, &f, &owner);
    assert(!p || f->type == PROTOBUF_C_TYPE_UINT32);
    if (p) {
        *p = value;
    }
    return p != NULL;
}

bool field_set_bool(ProtobufCMessage *message, const char *path, bool value, struct arena *arena)
{
    const ProtobufCFieldDescriptor *f;
    ProtobufCMessage *owner;
    protobuf_c_boolean *p = place(message, path, arena, &f, &owner);
    assert(!p || f->type == PROTOBUF_C_TYPE_BOOL);
    if (p) {
        *p = value;
    }
    return p != NULL;
}

int field_set_enum(ProtobufCMessage *message, const char *path, const char *name,
                   struct arena *arena)
{
    const ProtobufCFieldDescriptor *f;
    ProtobufCMessage *owner;
    int *p = place(message, path, arena, &f, &owner);
    assert(!p || f->type == PROTOBUF_C_TYPE_ENUM);
    const ProtobufCEnumValue *v =
        p ? protobuf_c_enum_descriptor_get_value_by_name(f->descriptor, name) : NULL;
    if (!v) {
        return -1;
    }
    *p = v->value;
    return 0;
}

/* Room for one more element of a repeated field of pointers; NULL: arena full. */
static void **add_element(ProtobufCMessage *message, const char *path, struct arena *arena,
                          const ProtobufCFieldDescriptor **ret_field)
{
    ProtobufCMessage *owner;
    void ***p = place(message, path, arena, ret_field, &owner);
    if (!p) {
        return NULL;
    }
    assert((*ret_field)->label == PROTOBUF_C_LABEL_REPEATED);
    size_t *count = (size_t *)((uint8_t *)owner + (*ret_field)->quantifier_offset);
    void **longer = arena_calloc(arena, *count + 1, sizeof *longer);
    if (!longer) {
        return NULL;
    }
    if (*count > 0) {
        memcpy(longer, *p, *count * sizeof *longer);
    }
    *p = longer;
    return &longer[(*count)++];
}

bool field_add_text(ProtobufCMessage *message, const char *path, const char *text,
                    struct arena *arena)
{
    const ProtobufCFieldDescriptor *f;
    void **p = add_element(message, path, arena, &f);
    assert(!p || f->type == PROTOBUF_C_TYPE_STRING);
    if (p) {
        *p = arena_strdup(arena, text);
    }
    return p && *p;
}

ProtobufCMessage *field_add_message(ProtobufCMessage *message, const char *path,
                                    struct arena *arena)
{
    const ProtobufCFieldDescriptor *f;
    void **p = add_element(message, path, arena, &f);
    assert(!p || f->type == PROTOBUF_C_TYPE_MESSAGE);
    if (p) {
        *p = codec_new(f->descriptor, arena);
    }
    return p ? *p : NULL;
}

size_t field_items(const ProtobufCMessage *list, ProtobufCMessage ***ret)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(list->descriptor, "items");
    assert(f && f->label == PROTOBUF_C_LABEL_REPEATED);
    *ret = *(ProtobufCMessage ***)member(list, f);
    return *(const size_t *)((const uint8_t *)list + f->quantifier_offset);
}
