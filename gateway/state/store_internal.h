#ifndef GATEWAY_STATE_STORE_INTERNAL_H
#define GATEWAY_STATE_STORE_INTERNAL_H

#include "gateway/state/sql.h"
#include "gateway/state/store.h"
#include "policy/base/bytes.h"

/* Shared by the store_*.c files only. */

enum { STORE_MESSAGE_BYTES_MAX = 16 * 1024 * 1024 };

struct store {
    struct sql *db;
    struct buf scratch; /* an encoded message; keeps its memory between calls */
    uint64_t changes[STORE_KIND_COUNT];
};

#endif
