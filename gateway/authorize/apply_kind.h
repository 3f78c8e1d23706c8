#ifndef AUTHORIZE_APPLY_KIND_H
#define AUTHORIZE_APPLY_KIND_H

#include "gateway/gateway.h"
#include "gateway/state/store.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* What differs between the kinds that a file may hold; internal to authorize/apply. */
struct apply_kind {
    enum store_kind store_kind;
    const char *kind;
    unsigned order; /* lower ones are stored first */
    /* Checks name and spec as far as they go alone. */
    int (*check)(struct gateway *g, const ProtobufCMessage *message, struct error *err);
    /* Completes a resource that is about to be stored, `existing` being NULL or the one in its
     * place: status, defaults, and the index. What it refers to is in the store by now. */
    int (*complete)(struct gateway *g, ProtobufCMessage *message, const ProtobufCMessage *existing,
                    struct arena *arena, struct store_index *ret_index, struct error *err);
};

/* NULL and an error text when there is no such kind, or it is managed elsewhere. An empty
 * api_version stands for core/v1. */
const struct apply_kind *apply_kind_find(struct str api_version, struct str kind,
                                         struct error *err);

#endif
