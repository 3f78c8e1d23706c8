#ifndef TELEMETRY_AUDIT_FACTS_H
#define TELEMETRY_AUDIT_FACTS_H

#include <stdint.h>

#include "gateway/text/tree.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* What other people's log formats have a place for, picked out of a line of the audit log. Texts
 * are empty where the line has none; they and the tree live in the arena. */
struct audit_facts {
    const struct tree_node *line; /* the whole of it */
    struct str sequence;          /* decimal digits */
    struct str kind;              /* "AccessLog", "DaemonLog" … */
    struct str event;             /* "DECISION", "END" … */
    struct str decision;          /* "ALLOWED", "DENIED" */
    struct str reason;
    struct str code; /* name of the gRPC code that the RPC ended with or is refused with */
    struct str request_id;
    struct str user_name;
    struct str user_uid;
    struct str session_uid;
    struct str rpc_service;
    struct str rpc_method;
    struct str http_method;
    struct str http_path;
    struct str http_status;
    struct str peer; /* "192.0.2.7:4711" */
    struct str user_agent;
    int64_t wall_ns; /* metadata.createdAt; 0 where the line has none */
};

/* One line without its newline. INVALID_ARGUMENT for what is no JSON object, RESOURCE_EXHAUSTED for
 * a full arena. */
int audit_facts_read(struct str line, struct arena *arena, struct audit_facts *ret,
                     struct error *err);

#endif
