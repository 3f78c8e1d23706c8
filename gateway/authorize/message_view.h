#ifndef AUTHORIZE_MESSAGE_VIEW_H
#define AUTHORIZE_MESSAGE_VIEW_H

#include <protobuf-c/protobuf-c.h>

#include "google/protobuf/struct.pb-c.h"
#include "gateway/rpc/schema.h"
#include "policy/base/arena.h"
#include "policy/policy.h"

/* Messages as policies see them: in Octelium's shape, which is protobuf's JSON mapping read back as
 * a map. Members are made when they are asked for, nothing is copied.
 *
 *   unset, false, 0, "", empty list or map      no such key
 *   enum                                        its name
 *   int64, uint64                               text of decimal digits
 *   int32, uint32, float, double                double
 *   bytes                                       base64 text
 *   Timestamp, Duration                         RFC 3339 text, "1.5s"
 *   Struct, Value, ListValue                    what they hold; numbers are doubles
 *   member of a oneof that is set               there, even when 0 or ""
 *   names                                       the JSON names (camelCase) only */

/* A view of the message; it and the arena must live as long as the value. ABSENT for NULL,
 * policy_unreadable(-STATUS_RESOURCE_EXHAUSTED) when the arena is full. */
struct policy_value message_view_make(const ProtobufCMessage *message, struct arena *arena);

/* The same without the search for its schema, which the caller has at hand. */
struct policy_value message_view_make_as(const ProtobufCMessage *message,
                                         const struct schema_message *schema, struct arena *arena);

/* A list of views; ABSENT when count is 0. The array is borrowed. */
struct policy_value message_view_make_list(const ProtobufCMessage *const *messages, size_t count,
                                           struct arena *arena);

#endif
