#ifndef SERVICES_RESOURCE_WRITE_H
#define SERVICES_RESOURCE_WRITE_H

#include "gateway/request.h"
#include "gateway/state/store.h"
#include "policy/base/status.h"

/* What Create, Update, Get, List and Delete have in common, whatever the resource. */

/* The caller's part of metadata within its bounds: display name ≤ 100, description ≤ 1024, picture
 * URL ≤ 256 bytes; at most 64 labels, annotations and tags each, their keys 1 to 128 and values ≤
 * 63 bytes. NULL is INVALID_ARGUMENT. `kind` goes into the text. */
int metadata_validate(const Meta__Metadata *metadata, const char *kind, struct error *err);

/* A resource of the caller's message: his metadata (checked) and spec, a fresh uid, version and
 * name; no status (set it afterwards). INVALID_ARGUMENT when metadata or spec is missing. Lives in
 * r->arena. */
int resource_make(struct request *r, enum store_kind kind, const char *full_name,
                  ProtobufCMessage **ret, struct error *err);

/* A copy of the stored resource with the caller's metadata (checked) and spec taken over; status
 * and the rest are the stored ones. Same errors. */
int resource_make_update(struct request *r, enum store_kind kind, const ProtobufCMessage *stored,
                         ProtobufCMessage **ret, struct error *err);

/* Reads the resource again, at the start of a handler that changes it: other calls may have changed
 * it while this one's audit line was on the way to the disk. NOT_FOUND when it is gone. */
int resource_reread(struct request *r, enum store_kind kind, const ProtobufCMessage **resource,
                    struct error *err);

/* Stores `next` in place of `stored` unless they are equal; then *ret is `stored` and nothing is
 * written. Else next is stamped and stored. */
int resource_write(struct request *r, enum store_kind kind, const ProtobufCMessage *stored,
                   ProtobufCMessage *next, const struct store_index *index,
                   const ProtobufCMessage **ret, struct error *err);

/* Answers a List call with one page of what matches; `common` may be NULL. `show`, when given,
 * strips each item of what is not shown. */
void resource_list_reply(struct request *r, enum store_kind kind, const struct store_filter *filter,
                         const Meta__CommonListOptions *common,
                         void (*show)(ProtobufCMessage *item));

/* The same for items that the handler found itself. */
void resource_list_reply_items(struct request *r, enum store_kind kind,
                               const struct store_list *list, const struct store_page *page);

/* Sets a message field by its name in the .proto file; the field must exist. */
void message_set_pointer(ProtobufCMessage *message, const char *field, void *value);

/* The uid and name of a GetOptions or DeleteOptions message. */
void resource_options(const ProtobufCMessage *options, const char **ret_uid, const char **ret_name);

/* How many match, against a quota: PERMISSION_DENIED with what to do when it is used up. */
int resource_check_quota(struct request *r, enum store_kind kind, const struct store_filter *filter,
                         uint32_t max, const char *where, struct error *err);

int resource_no_memory(struct error *err);

#endif
