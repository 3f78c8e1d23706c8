#include "gateway/services/resource_write.h"

#include <assert.h>
#include <string.h>

#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/spec_check.h"
#include "gateway/state/resource.h"

enum {
    DISPLAY_NAME_MAX = 100,
    DESCRIPTION_MAX = 1024,
    PIC_URL_MAX = 256,
    LABELS_MAX = 64,
    LABEL_KEY_MAX = 128,
    LABEL_VALUE_MAX = 63,
};

int resource_no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The request needs more memory than it may");
}

static int check_label(const char *key, const char *value, const char *field, size_t i,
                       struct error *err)
{
    int status =
        spec_check_length(key, 1, LABEL_KEY_MAX, spec_path("%s: key %zu", field, i + 1).text, err);
    return status ? status
                  : spec_check_length(value, 0, LABEL_VALUE_MAX,
                                      spec_path("%s['%.100s']", field, key).text, err);
}

static int check_labels(const Meta__Metadata *metadata, struct error *err)
{
    int status = spec_check_count(metadata->n_labels, LABELS_MAX, "metadata.labels", err);
    for (size_t i = 0; !status && i < metadata->n_labels; i++) {
        status = check_label(metadata->labels[i]->key, metadata->labels[i]->value,
                             "metadata.labels", i, err);
    }
    if (!status) {
        status = spec_check_count(metadata->n_annotations, LABELS_MAX, "metadata.annotations", err);
    }
    for (size_t i = 0; !status && i < metadata->n_annotations; i++) {
        status = check_label(metadata->annotations[i]->key, metadata->annotations[i]->value,
                             "metadata.annotations", i, err);
    }
    if (!status) {
        status = spec_check_count(metadata->n_tags, LABELS_MAX, "metadata.tags", err);
    }
    for (size_t i = 0; !status && i < metadata->n_tags; i++) {
        status = spec_check_length(metadata->tags[i], 1, LABEL_VALUE_MAX,
                                   spec_path("metadata.tags[%zu]", i).text, err);
    }
    return status;
}

int metadata_validate(const Meta__Metadata *metadata, const char *kind, struct error *err)
{
    if (!metadata) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "The metadata of the %s is unset", kind);
    }
    int status =
        spec_check_length(metadata->display_name, 0, DISPLAY_NAME_MAX, "metadata.displayName", err);
    if (!status) {
        status = spec_check_length(metadata->description, 0, DESCRIPTION_MAX,
                                   "metadata.description", err);
    }
    if (!status) {
        status = spec_check_length(metadata->pic_url, 0, PIC_URL_MAX, "metadata.picURL", err);
    }
    return status ? status : check_labels(metadata, err);
}

static const ProtobufCFieldDescriptor *find_field(const ProtobufCMessage *message, const char *name)
{
    return protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
}

void message_set_pointer(ProtobufCMessage *message, const char *field, void *value)
{
    const ProtobufCFieldDescriptor *f = find_field(message, field);
    assert(f && f->label != PROTOBUF_C_LABEL_REPEATED);
    *(void **)((char *)message + f->offset) = value;
}

static int check_shape(const ProtobufCMessage *message, const char *kind, struct error *err)
{
    int status = metadata_validate(resource_metadata(message), kind, err);
    if (!status && !resource_spec(message)) {
        status = error_set(err, STATUS_INVALID_ARGUMENT, "The spec of the %s is unset", kind);
    }
    return status;
}

int resource_make(struct request *r, enum store_kind kind, const char *full_name,
                  ProtobufCMessage **ret, struct error *err)
{
    int status = check_shape(r->message, store_kind_info(kind)->kind, err);
    if (status) {
        return status;
    }
    ProtobufCMessage *made = codec_copy(r->message, &r->arena);
    Meta__Metadata *metadata = CODEC_NEW(&r->arena, Meta__Metadata, meta__metadata);
    if (!made || !metadata) {
        return resource_no_memory(err);
    }
    resource_metadata_take(metadata, resource_metadata(made));
    message_set_pointer(made, "metadata", metadata);
    if (find_field(made, "status")) {
        message_set_pointer(made, "status", NULL);
    }
    status = resource_stamp_new(made, kind, full_name, r->started_at_ns, &r->arena, err);
    if (!status) {
        *ret = made;
    }
    return status;
}

int resource_make_update(struct request *r, enum store_kind kind, const ProtobufCMessage *stored,
                         ProtobufCMessage **ret, struct error *err)
{
    int status = check_shape(r->message, store_kind_info(kind)->kind, err);
    if (status) {
        return status;
    }
    ProtobufCMessage *next = codec_copy(stored, &r->arena);
    ProtobufCMessage *asked = codec_copy(r->message, &r->arena);
    if (!next || !asked) {
        return resource_no_memory(err);
    }
    resource_metadata_take(resource_metadata(next), resource_metadata(asked));
    message_set_pointer(next, "spec", resource_spec(asked));
    *ret = next;
    return 0;
}

int resource_reread(struct request *r, enum store_kind kind, const ProtobufCMessage **resource,
                    struct error *err)
{
    ProtobufCMessage *found = NULL;
    int status =
        store_get_by_uid(r->gateway->store, kind, resource_uid(*resource), &r->arena, &found, err);
    if (!status) {
        *resource = found;
    }
    return status;
}

int resource_write(struct request *r, enum store_kind kind, const ProtobufCMessage *stored,
                   ProtobufCMessage *next, const struct store_index *index,
                   const ProtobufCMessage **ret, struct error *err)
{
    if (codec_equal(stored, next)) {
        *ret = stored;
        return 0;
    }
    int status = resource_stamp_update(next, r->started_at_ns, &r->arena, err);
    if (!status) {
        status = store_update(r->gateway->store, kind, next, index,
                              resource_metadata(stored)->resource_version, err);
    }
    if (!status) {
        *ret = next;
    }
    return status;
}

void resource_options(const ProtobufCMessage *options, const char **ret_uid, const char **ret_name)
{
    if (options->descriptor == &meta__delete_options__descriptor) {
        const Meta__DeleteOptions *o = (const Meta__DeleteOptions *)options;
        *ret_uid = o->uid;
        *ret_name = o->name;
        return;
    }
    assert(options->descriptor == &meta__get_options__descriptor);
    const Meta__GetOptions *o = (const Meta__GetOptions *)options;
    *ret_uid = o->uid;
    *ret_name = o->name;
}

void resource_list_reply_items(struct request *r, enum store_kind kind,
                               const struct store_list *list, const struct store_page *page)
{
    const struct store_kind_info *info = store_kind_info(kind);
    ProtobufCMessage *reply = codec_new(r->method->schema->response->descriptor, &r->arena);
    char *api_version = arena_strdup(&r->arena, info->api_version);
    char *list_kind = arena_printf(&r->arena, "%sList", info->kind);
    Meta__ListResponseMeta *meta = resource_list_meta(list, page, &r->arena);
    if (!reply || !api_version || !list_kind || !meta) {
        request_fail_memory(r);
        return;
    }
    message_set_pointer(reply, "api_version", api_version);
    message_set_pointer(reply, "kind", list_kind);
    message_set_pointer(reply, "list_response_meta", meta);
    const ProtobufCFieldDescriptor *items = find_field(reply, "items");
    *(size_t *)((char *)reply + items->quantifier_offset) = list->count;
    *(ProtobufCMessage ***)((char *)reply + items->offset) = list->items;
    request_reply(r, reply);
}

void resource_list_reply(struct request *r, enum store_kind kind, const struct store_filter *filter,
                         const Meta__CommonListOptions *common,
                         void (*show)(ProtobufCMessage *item))
{
    struct store_page page;
    struct store_list list;
    struct error err = {0};
    resource_page_from(common, &page);
    if (store_list(r->gateway->store, kind, filter, &page, &r->arena, &list, &err)) {
        request_fail(r, &err);
        return;
    }
    for (size_t i = 0; show && i < list.count; i++) {
        show(list.items[i]);
    }
    resource_list_reply_items(r, kind, &list, &page);
}

int resource_check_quota(struct request *r, enum store_kind kind, const struct store_filter *filter,
                         uint32_t max, const char *where, struct error *err)
{
    uint32_t count = 0;
    int status = store_count(r->gateway->store, kind, filter, &count, err);
    if (!status && count >= max) {
        const char *name = store_kind_info(kind)->kind;
        status = error_set(err, STATUS_PERMISSION_DENIED,
                           "%s has %u of at most %u %s resources: delete one first", where, count,
                           max, name);
    }
    return status;
}
