#ifndef POLICYFILE_DIAGNOSTIC_MESSAGE_H
#define POLICYFILE_DIAGNOSTIC_MESSAGE_H

#include "api/ext.pb-c.h"
#include "gateway/policyfile/diagnostic.h"
#include "policy/base/arena.h"

/* Diagnostics as the API's messages, there and back. */

enum {
    DIAGNOSTIC_SOURCE_MAX_BYTES = 1024, /* longer lines are not sent */
    DIAGNOSTIC_MESSAGES_MAX = 1000,
};

/* In the arena, texts and all; but not `code`. NULL when it is full. */
Ext__PolicyDiagnostic *diagnostic_message_of(const struct diagnostic *item, struct arena *arena);

/* The message borrowed as a diagnostic; `source` is the line, which the message may lack. */
struct diagnostic diagnostic_of_message(const Ext__PolicyDiagnostic *message, struct str source);

#endif
