#ifndef AUDITFILE_LINE_FIELDS_H
#define AUDITFILE_LINE_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/str.h"

/* What lines are found by, and tables show of them. */
enum line_field {
    LINE_KIND,
    LINE_EVENT,
    LINE_ID,
    LINE_REQUEST_ID,
    LINE_RUN_ID,
    LINE_USER,
    LINE_USER_UID,
    LINE_SESSION,
    LINE_SESSION_UID,
    LINE_SPACE,
    LINE_SPACE_UID,
    LINE_TEMPLATE,
    LINE_TEMPLATE_UID,
    LINE_WORKSPACE,
    LINE_WORKSPACE_UID,
    LINE_METHOD, /* "Exec"; of HTTP: "POST /oauth2/token" */
    LINE_PATH,   /* "/package.Service/Exec" */
    LINE_DECISION,
    LINE_REASON,
    LINE_POLICY,
    LINE_POLICY_UID,
    LINE_RULE,
    LINE_OUTCOME,
    LINE_CODE, /* of the end, or of what a stage refused */
    LINE_PEER,
    LINE_FIELD_COUNT,
};

struct line_fields {
    struct str text[LINE_FIELD_COUNT]; /* a ptr of NULL: the line does not say it */
    int64_t time_ns;                   /* of metadata.createdAt; 0: none */
    bool in_workspace;
};

/* Reads a line once from left to right, without making a tree of it. Texts are parts of the line,
 * or, where these hold escapes, in the arena. False when it is no JSON object as we write them:
 * what was read so far is in *ret. Members that do not matter are passed over, not judged. */
bool line_fields_read(struct str line, struct arena *arena, struct line_fields *ret);

/* Parts of texts, STR_NONE when there is none: "WorkspaceService/Exec" of a path, "192.0.2.7" or
 * "unix" of a peer. */
struct str line_path_tail(struct str path);
struct str line_peer_address(struct str peer);

#endif
