#ifndef GATEWAY_RPC_CODEC_H
#define GATEWAY_RPC_CODEC_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "gateway/rpc/schema.h"
#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* Between bytes and messages: protobuf's wire format, its JSON mapping
 * (https://protobuf.dev/programming-guides/json/) and the same mapping as YAML.
 *
 * Messages live in an arena and die with it: never call a *__free_unpacked(). Strings are never
 * NULL; "" is the unset string. A message of any of the API's types may be given; others are
 * refused with INTERNAL.
 *
 * Errors of the decoders are INVALID_ARGUMENT, with line and column for JSON and YAML, and
 * RESOURCE_EXHAUSTED when the arena's cap was reached. *ret is written on success only. */

enum {
    CODEC_DEPTH_MAX = 100,    /* nested messages, as in protobuf's own runtimes */
    CODEC_FIELDS_MAX = 65536, /* in one message and all below it: a field costs ~24 bytes of C */
};

enum codec_flags {
    CODEC_LENIENT = 0,
    CODEC_STRICT = 1, /* an unknown JSON or YAML field is an error; for files that people write */
};

/* Refuses text that is not UTF-8 or holds a NUL, too deep nesting and groups before anything is
 * unpacked. Unknown fields are dropped. `bytes` may go away afterwards. */
int codec_decode_wire(const ProtobufCMessageDescriptor *descriptor, struct str bytes,
                      struct arena *arena, ProtobufCMessage **ret, struct error *err);

/* The same for bytes of codec_encode_wire() that were kept: no limit on fields, since a resource
 * may have grown after it was accepted, and text that is not UTF-8 is taken as it is: one name that
 * was cut must not take away all that lies beside it. */
int codec_decode_stored(const ProtobufCMessageDescriptor *descriptor, struct str bytes,
                        struct arena *arena, ProtobufCMessage **ret, struct error *err);

int codec_decode_json(const ProtobufCMessageDescriptor *descriptor, struct str text, unsigned flags,
                      struct arena *arena, ProtobufCMessage **ret, struct error *err);

/* One document only; more of them go through yaml_stream (gateway/text/yaml_reader.h) and
 * codec_decode_tree(). */
int codec_decode_yaml(const ProtobufCMessageDescriptor *descriptor, struct str text, unsigned flags,
                      struct arena *arena, ProtobufCMessage **ret, struct error *err);

struct tree_node; /* gateway/text/tree.h */
int codec_decode_tree(const ProtobufCMessageDescriptor *descriptor, const struct tree_node *tree,
                      unsigned flags, struct arena *arena, ProtobufCMessage **ret,
                      struct error *err);

/* Append to `out`. RESOURCE_EXHAUSTED when it is full. JSON has no defaults, one line; YAML ends
 * with a newline and reads back to the same message. */
int codec_encode_wire(const ProtobufCMessage *message, struct buf *out, struct error *err);
/* With '?' for each byte of a text that is none: a text of ours that was cut may end in half a
 * character, and then other protobuf runtimes take nothing of the message. */
int codec_encode_wire_mended(const ProtobufCMessage *message, struct buf *out, struct error *err);
int codec_encode_json(const ProtobufCMessage *message, struct buf *out, struct error *err);
int codec_encode_yaml(const ProtobufCMessage *message, struct buf *out, struct error *err);

/* An empty message; NULL when the arena is full. */
ProtobufCMessage *codec_new(const ProtobufCMessageDescriptor *descriptor, struct arena *arena);

/* A deep copy into the arena, or NULL. */
ProtobufCMessage *codec_copy(const ProtobufCMessage *message, struct arena *arena);

/* Merges src into dst as protobuf's MergeFrom: set scalars of src win, messages merge, repeated
 * fields are appended, map entries replaced by key, a set oneof member replaces the other ones
 * (and merges into the same message member). src is copied. 0 or -RESOURCE_EXHAUSTED. */
int codec_merge(ProtobufCMessage *dst, const ProtobufCMessage *src, struct arena *arena,
                struct error *err);

/* Same type and same fields; maps in any order. NULL equals NULL only. */
bool codec_equal(const ProtobufCMessage *a, const ProtobufCMessage *b);

/* codec_new() for a generated type: CODEC_NEW(arena, Cordium__Space, cordium__space). */
#define CODEC_NEW(arena, type, prefix) ((type *)codec_new(&prefix##__descriptor, arena))
#define CODEC_COPY(arena, type, message) ((type *)codec_copy(&(message)->base, arena))

#endif
