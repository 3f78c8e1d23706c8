#include "gateway/state/resource.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "gateway/rpc/codec.h"
#include "gateway/rpc/codec_field.h"

enum { NANOSECONDS = 1000000000 };

/* A message or string member by its name in the .proto file, or NULL. */
static void *member(const ProtobufCMessage *resource, const char *name, ProtobufCType type)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(resource->descriptor, name);
    return f && f->type == type && !field_is_repeated(f) && !field_is_oneof(f)
               ? field_at(resource, f)
               : NULL;
}

static ProtobufCMessage *message_member(const ProtobufCMessage *resource, const char *name)
{
    ProtobufCMessage **p = member(resource, name, PROTOBUF_C_TYPE_MESSAGE);
    return p ? *p : NULL;
}

Meta__Metadata *resource_metadata(const ProtobufCMessage *resource)
{
    ProtobufCMessage *m = message_member(resource, "metadata");
    return m && m->descriptor == &meta__metadata__descriptor ? (Meta__Metadata *)m : NULL;
}

ProtobufCMessage *resource_spec(const ProtobufCMessage *resource)
{
    return message_member(resource, "spec");
}

ProtobufCMessage *resource_status(const ProtobufCMessage *resource)
{
    return message_member(resource, "status");
}

const char *resource_kind(const ProtobufCMessage *resource)
{
    const void *p = member(resource, "kind", PROTOBUF_C_TYPE_STRING);
    return p ? field_string(p) : "";
}

const char *resource_uid(const ProtobufCMessage *resource)
{
    const Meta__Metadata *m = resource_metadata(resource);
    return m ? field_string(&m->uid) : "";
}

const char *resource_name(const ProtobufCMessage *resource)
{
    const Meta__Metadata *m = resource_metadata(resource);
    return m ? field_string(&m->name) : "";
}

static int fail_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "the request is too large");
}

/* protobuf-c's structs take char *, and nobody writes through it. */
static char *borrow(const char *text)
{
    return (char *)(uintptr_t)text;
}

static bool set_text(const ProtobufCMessage *resource, const char *member_name, const char *text)
{
    char **p = member(resource, member_name, PROTOBUF_C_TYPE_STRING);
    if (p) {
        *p = borrow(text);
    }
    return p != NULL;
}

/* The metadata, made when missing. */
static Meta__Metadata *metadata_make(ProtobufCMessage *resource, struct arena *arena)
{
    Meta__Metadata *m = resource_metadata(resource);
    ProtobufCMessage **p = member(resource, "metadata", PROTOBUF_C_TYPE_MESSAGE);
    if (!m && p) {
        m = CODEC_NEW(arena, Meta__Metadata, meta__metadata);
        *p = m ? &m->base : NULL;
    }
    return m;
}

int resource_stamp_new(ProtobufCMessage *resource, enum store_kind kind, const char *name,
                       int64_t wall_ns, struct arena *arena, struct error *err)
{
    const struct store_kind_info *info = store_kind_info(kind);
    char uid[RESOURCE_UUID_BYTES];
    char version[RESOURCE_UUID_BYTES];
    if (!set_text(resource, "api_version", info->api_version) ||
        !set_text(resource, "kind", info->kind) || resource->descriptor != info->descriptor) {
        return error_set(err, STATUS_INTERNAL, "a %s is not a %s", resource->descriptor->name,
                         info->full_name);
    }
    int status = resource_uuid_v4(uid, err);
    if (status == 0) {
        status = resource_uuid_v7(wall_ns, version, err);
    }
    Meta__Metadata *m = metadata_make(resource, arena);
    if (status < 0 || !m) {
        return status < 0 ? status : fail_memory(err);
    }
    m->uid = arena_strdup(arena, uid);
    m->name = arena_strdup(arena, name);
    m->resource_version = arena_strdup(arena, version);
    m->created_at = resource_timestamp(wall_ns, arena);
    m->updated_at = NULL;
    m->last_resource_version = borrow(protobuf_c_empty_string);
    m->actor_ref = NULL;
    m->actor_operation = borrow(protobuf_c_empty_string);
    m->is_system = m->is_system_hidden = m->is_user_hidden = 0;
    m->n_system_labels = m->n_spec_labels = 0;
    return m->uid && m->name && m->resource_version && m->created_at ? 0 : fail_memory(err);
}

int resource_stamp_update(ProtobufCMessage *resource, int64_t wall_ns, struct arena *arena,
                          struct error *err)
{
    char version[RESOURCE_UUID_BYTES];
    int status = resource_uuid_v7(wall_ns, version, err);
    Meta__Metadata *m = metadata_make(resource, arena);
    if (status < 0 || !m) {
        return status < 0 ? status : fail_memory(err);
    }
    m->last_resource_version = m->resource_version;
    m->resource_version = arena_strdup(arena, version);
    m->updated_at = resource_timestamp(wall_ns, arena);
    return m->resource_version && m->updated_at ? 0 : fail_memory(err);
}

void resource_metadata_take(Meta__Metadata *to, const Meta__Metadata *from)
{
    to->display_name = from->display_name;
    to->description = from->description;
    to->pic_url = from->pic_url;
    to->n_labels = from->n_labels;
    to->labels = from->labels;
    to->n_annotations = from->n_annotations;
    to->annotations = from->annotations;
    to->n_tags = from->n_tags;
    to->tags = from->tags;
}

Meta__ObjectReference *resource_ref(const ProtobufCMessage *resource, struct arena *arena)
{
    Meta__ObjectReference *ref = CODEC_NEW(arena, Meta__ObjectReference, meta__object_reference);
    const Meta__Metadata *m = resource_metadata(resource);
    const void *api_version = member(resource, "api_version", PROTOBUF_C_TYPE_STRING);
    if (!ref || !m) {
        return ref;
    }
    ref->api_version = arena_strdup(arena, api_version ? field_string(api_version) : "");
    ref->kind = arena_strdup(arena, resource_kind(resource));
    ref->uid = arena_strdup(arena, field_string(&m->uid));
    ref->name = arena_strdup(arena, field_string(&m->name));
    ref->resource_version = arena_strdup(arena, field_string(&m->resource_version));
    return ref->api_version && ref->kind && ref->uid && ref->name && ref->resource_version ? ref
                                                                                           : NULL;
}

bool resource_ref_is_set(const Meta__ObjectReference *ref)
{
    return ref && (field_string(&ref->uid)[0] || field_string(&ref->name)[0]);
}

int resource_find(struct store *store, enum store_kind kind, const char *uid, const char *name,
                  struct arena *arena, ProtobufCMessage **ret, struct error *err)
{
    if (uid && uid[0]) {
        return resource_uid_is_valid(str_from(uid))
                   ? store_get_by_uid(store, kind, uid, arena, ret, err)
                   : error_set(err, STATUS_INVALID_ARGUMENT, "Invalid UID '%.64s'", uid);
    }
    if (name && name[0]) {
        return store_get_by_name(store, kind, name, arena, ret, err);
    }
    return error_set(err, STATUS_INVALID_ARGUMENT, "%s: neither uid nor name is given",
                     store_kind_info(kind)->full_name);
}

void resource_page_from(const Meta__CommonListOptions *options, struct store_page *ret)
{
    *ret = (struct store_page){0};
    if (!options) {
        return;
    }
    ret->page = options->page;
    ret->items_per_page = options->items_per_page;
    const Meta__CommonListOptions__OrderBy *order = options->order_by;
    if (order) {
        ret->order = order->type == META__COMMON_LIST_OPTIONS__ORDER_BY__TYPE__NAME
                         ? STORE_BY_NAME
                         : STORE_BY_CREATION;
        ret->is_descending = order->mode == META__COMMON_LIST_OPTIONS__ORDER_BY__MODE__DESC;
    }
}

Meta__ListResponseMeta *resource_list_meta(const struct store_list *list,
                                           const struct store_page *page, struct arena *arena)
{
    Meta__ListResponseMeta *m = CODEC_NEW(arena, Meta__ListResponseMeta, meta__list_response_meta);
    if (m) {
        m->page = page->page;
        m->items_per_page = list->items_per_page;
        m->total_count = list->total_count;
        m->has_more = list->has_more;
    }
    return m;
}

Google__Protobuf__Timestamp *resource_timestamp(int64_t wall_ns, struct arena *arena)
{
    Google__Protobuf__Timestamp *t =
        CODEC_NEW(arena, Google__Protobuf__Timestamp, google__protobuf__timestamp);
    if (t) {
        t->seconds = wall_ns / NANOSECONDS;
        t->nanos = (int32_t)(wall_ns % NANOSECONDS);
        if (t->nanos < 0) {
            t->seconds--;
            t->nanos += NANOSECONDS;
        }
    }
    return t;
}

int64_t resource_timestamp_ns(const Google__Protobuf__Timestamp *t)
{
    int64_t ns;
    if (!t) {
        return 0;
    }
    if (__builtin_mul_overflow(t->seconds, (int64_t)NANOSECONDS, &ns) ||
        __builtin_add_overflow(ns, (int64_t)t->nanos, &ns)) {
        return t->seconds < 0 ? INT64_MIN : INT64_MAX;
    }
    return ns;
}

/* Random bytes with version and variant set (RFC 9562 §5.4 and §5.7). */
static int uuid_make(uint8_t bytes[16], size_t random_from, unsigned version, char *ret,
                     struct error *err)
{
    ssize_t want = (ssize_t)(16 - random_from);
    if (getrandom(bytes + random_from, (size_t)want, 0) != want) {
        return error_set_errno(err, STATUS_INTERNAL, errno, "no random numbers");
    }
    bytes[6] = (uint8_t)((bytes[6] & 0x0f) | version << 4);
    bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            *ret++ = '-';
        }
        *ret++ = digits[bytes[i] >> 4];
        *ret++ = digits[bytes[i] & 15];
    }
    *ret = '\0';
    return 0;
}

int resource_uuid_v4(char ret[RESOURCE_UUID_BYTES], struct error *err)
{
    uint8_t bytes[16];
    return uuid_make(bytes, 0, 4, ret, err);
}

int resource_uuid_v7(int64_t wall_ns, char ret[RESOURCE_UUID_BYTES], struct error *err)
{
    uint8_t bytes[16];
    uint64_t ms = (uint64_t)(wall_ns / 1000000);
    for (unsigned i = 0; i < 6; i++) {
        bytes[i] = (uint8_t)(ms >> (40 - 8 * i));
    }
    return uuid_make(bytes, 6, 7, ret, err);
}

bool resource_uid_is_valid(struct str uid)
{
    if (uid.len != RESOURCE_UUID_BYTES - 1 || uid.ptr[14] != '4') {
        return false;
    }
    for (size_t i = 0; i < uid.len; i++) {
        char c = uid.ptr[i];
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        bool is_hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        if (is_dash ? c != '-' : !is_hex) {
            return false;
        }
    }
    return strchr("89ab", uid.ptr[19]) != NULL;
}
