#ifndef TELEMETRY_PROTO_OUT_H
#define TELEMETRY_PROTO_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* Appends protobuf's wire format to a buffer, for messages of other people's schemas that are only
 * ever written. Nesting is the caller's duty and is asserted. A full buffer shows in out->failed.
 *
 *     struct proto_out p = proto_out_to(&buf);
 *     proto_begin(&p, 1);
 *     proto_text(&p, 1, name);
 *     proto_end(&p);
 *
 * Values are written also when they are the field's default: in a oneof that says which is set. */
enum {
    PROTO_OUT_DEPTH_MAX = 320
}; /* JSON of 100 levels: three messages each, and what holds them */

struct proto_out {
    struct buf *out;
    unsigned depth;
    size_t starts[PROTO_OUT_DEPTH_MAX]; /* of the open messages' content */
};

struct proto_out proto_out_to(struct buf *out);

/* A message field, or a packed one. */
void proto_begin(struct proto_out *p, unsigned field);
void proto_end(struct proto_out *p);

void proto_text(struct proto_out *p, unsigned field, struct str s); /* string or bytes */
void proto_varint(struct proto_out *p, unsigned field, uint64_t v); /* ints, enum and bool */
void proto_fixed64(struct proto_out *p, unsigned field, uint64_t v);
void proto_double(struct proto_out *p, unsigned field, double v);

/* Items of a packed field, between proto_begin() and proto_end(). */
void proto_item_fixed64(struct proto_out *p, uint64_t v);
void proto_item_double(struct proto_out *p, double v);

#endif
