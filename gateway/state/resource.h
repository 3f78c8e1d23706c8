#ifndef GATEWAY_STATE_RESOURCE_H
#define GATEWAY_STATE_RESOURCE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/meta.pb-c.h"
#include "google/protobuf/timestamp.pb-c.h"
#include "gateway/state/store.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* What every resource has, whatever its type: api_version, kind, metadata, spec, status. */

/* NULL when it is unset, or the message has no such field. They point into the resource. */
Meta__Metadata *resource_metadata(const ProtobufCMessage *resource);
ProtobufCMessage *resource_spec(const ProtobufCMessage *resource);
ProtobufCMessage *resource_status(const ProtobufCMessage *resource);

/* "" when unset. */
const char *resource_kind(const ProtobufCMessage *resource);
const char *resource_uid(const ProtobufCMessage *resource);
const char *resource_name(const ProtobufCMessage *resource);

/* Makes the message a new resource of that kind: api_version, kind, name, a new uid (UUIDv4), a
 * new resource_version (UUIDv7), created_at; whatever the caller had set of these is replaced,
 * updated_at, last_resource_version and the is_system family are cleared. Metadata is made when it
 * is missing. `name` is copied. RESOURCE_EXHAUSTED: the arena is full. INTERNAL: no random numbers.
 */
int resource_stamp_new(ProtobufCMessage *resource, enum store_kind kind, const char *name,
                       int64_t wall_ns, struct arena *arena, struct error *err);

/* A changed resource: a new resource_version, the old one in last_resource_version, updated_at. */
int resource_stamp_update(ProtobufCMessage *resource, int64_t wall_ns, struct arena *arena,
                          struct error *err);

/* Copies what a caller may change of metadata: display_name, description, labels, annotations,
 * tags, pic_url. `from` is borrowed by `to` afterwards; the same arena should hold both. */
void resource_metadata_take(Meta__Metadata *to, const Meta__Metadata *from);

/* A reference to the resource, or NULL when the arena is full. */
Meta__ObjectReference *resource_ref(const ProtobufCMessage *resource, struct arena *arena);

/* A reference without uid and name counts as absent. */
bool resource_ref_is_set(const Meta__ObjectReference *ref);

/* Fetches what a reference, or a Get or Delete request, names: by uid when given, else by name.
 * INVALID_ARGUMENT: neither, or "Invalid UID"; NOT_FOUND. */
int resource_find(struct store *store, enum store_kind kind, const char *uid, const char *name,
                  struct arena *arena, ProtobufCMessage **ret, struct error *err);

/* List requests and their answers. options may be NULL. list_response_meta is NULL when full. */
void resource_page_from(const Meta__CommonListOptions *options, struct store_page *ret);
Meta__ListResponseMeta *resource_list_meta(const struct store_list *list,
                                           const struct store_page *page, struct arena *arena);

/* NULL when the arena is full. A NULL time is 0. */
Google__Protobuf__Timestamp *resource_timestamp(int64_t wall_ns, struct arena *arena);
int64_t resource_timestamp_ns(const Google__Protobuf__Timestamp *t);

/* Lower-case text with its NUL. -INTERNAL when the kernel gives no random numbers. */
enum { RESOURCE_UUID_BYTES = 37 };
int resource_uuid_v4(char ret[RESOURCE_UUID_BYTES], struct error *err);
int resource_uuid_v7(int64_t wall_ns, char ret[RESOURCE_UUID_BYTES], struct error *err);

/* 8-4-4-4-12 lower-case hex digits of version 4. */
bool resource_uid_is_valid(struct str uid);

#endif
