#ifndef AUTHORIZE_MESSAGE_VIEW_H
#define AUTHORIZE_MESSAGE_VIEW_H

#include <protobuf-c/protobuf-c.h>

#include "google/protobuf/struct.pb-c.h"
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

/* A view of the message; it and the arena must live as long as the value. Gives ABSENT for NULL.
 * Returns 0, or -RESOURCE_EXHAUSTED when the arena is full. */
int message_view_make(const ProtobufCMessage *message, struct arena *arena,
                      struct policy_value *ret);

/* A list of views; ABSENT when count is 0. The array is borrowed. */
int message_view_make_list(const ProtobufCMessage *const *messages, size_t count,
                           struct arena *arena, struct policy_value *ret);

#endif
