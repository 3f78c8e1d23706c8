#ifndef POLICYFILE_DIAGNOSTIC_MESSAGE_H
#define POLICYFILE_DIAGNOSTIC_MESSAGE_H

#include "api/ext.pb-c.h"
#include "gateway/policyfile/diagnostic.h"
#include "policy/base/arena.h"

/* Diagnostics as the API's messages, there and back. */

enum { DIAGNOSTIC_MESSAGES_MAX = 1000 }; /* in one answer */

/* In the arena, texts and all; but not `code`. NULL when it is full. */
Ext__PolicyDiagnostic *diagnostic_message_of(const struct diagnostic *item, struct arena *arena);

/* Borrows the message. */
struct diagnostic diagnostic_of_message(const Ext__PolicyDiagnostic *message);

#endif
