#ifndef AUTHORIZE_RESOURCE_YAML_H
#define AUTHORIZE_RESOURCE_YAML_H

#include <protobuf-c/protobuf-c.h>

#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"

/* A resource as a person wrote it or could have written it: kind, his part of metadata, spec. What
 * the server adds (uid, versions, times, status) is left out. */

enum { RESOURCE_YAML_MAX_BYTES = 2 << 20 }; /* what a buffer for one of them should hold */

/* Appends it as one YAML document, without a line `---`. */
int resource_write_yaml(const ProtobufCMessage *resource, struct arena *arena, struct buf *out,
                        struct error *err);

/* Appends a unified diff (text_diff.h) of two states of a resource, headed KIND/NAME; either may be
 * NULL, for one that is made or deleted. A full buffer shows in out->failed. */
int resource_diff(const ProtobufCMessage *before, const ProtobufCMessage *after,
                  struct arena *arena, struct buf *out, struct error *err);

#endif
