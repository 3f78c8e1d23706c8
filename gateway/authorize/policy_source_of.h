#ifndef AUTHORIZE_POLICY_SOURCE_OF_H
#define AUTHORIZE_POLICY_SOURCE_OF_H

#include <protobuf-c/protobuf-c.h>

#include "api/core.pb-c.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/decide/policy_set.h"

/* From the API's messages to what the policy library compiles. */

enum {
    POLICY_SPEC_MAX_BYTES = 100000, /* serialized */
    POLICY_ATTRS_MAX_BYTES = 20000,
    POLICY_ATTR_KEY_MAX_BYTES = 100,
};

/* A policy for policy_set_add(). The arrays live in `scratch`, attributes are copied to `set_arena`
 * (policy_set_builder_arena()). Fails on what the library cannot see: sizes and keys of attrs. */
int policy_source_of(const char *name, const Meta__Metadata *metadata,
                     const Core__Policy__Spec *spec, struct arena *scratch, struct arena *set_arena,
                     struct policy_source *ret, struct error *err);

/* The spec.authorization of a resource, whatever its kind; empty when it has none. */
struct authorization {
    const char *const *names;
    size_t name_count;
    const Core__InlinePolicy *const *inline_policies;
    size_t inline_policy_count;
};
struct authorization authorization_of(const ProtobufCMessage *resource);

#endif
