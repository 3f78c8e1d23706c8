#ifndef IDENTITY_SCOPE_H
#define IDENTITY_SCOPE_H

#include <stddef.h>

#include "api/core.pb-c.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

// Scopes narrow a session to some services or methods:
//
//     service:*   service:NAME[.NAMESPACE]   service:NAMESPACE/*
//     api:*       api:PACKAGE   api:PACKAGE.Service   api:PACKAGE.Service/Method
//
// At most 128, no duplicates. INVALID_ARGUMENT names the one that is wrong. (Line comments, since
// one of the forms holds the characters that open a block.)
enum { SCOPE_COUNT_MAX = 128, SCOPE_TEXT_MAX = 256 };

int scope_parse_all(const char *const *texts, size_t count, struct arena *arena, Core__Scope ***ret,
                    struct error *err);

#endif
