#ifndef CLI_AUDIT_LINE_H
#define CLI_AUDIT_LINE_H

#include <stdbool.h>

#include "api/audit.pb-c.h"
#include "gateway/text/tree.h"
#include "policy/base/arena.h"

/* A line of the audit log, with what the server says of it and what it says itself. */
struct audit_line {
    const Ext__AuditRecord *record; /* borrowed */
    const struct tree_node *tree;   /* NULL: the line is no JSON, such as what a crash tore */
};

/* The tree is in the arena. */
struct audit_line audit_line_of(const Ext__AuditRecord *record, struct arena *arena);

/* The member at a dotted path ("cordium.run.limits"), or NULL. */
const struct tree_node *audit_line_at(const struct audit_line *line, const char *path);

/* The text of a scalar there, numbers and booleans too; "" when there is none. */
const char *audit_line_text(const struct audit_line *line, const char *path);

/* Is there a `true`? */
bool audit_line_is(const struct audit_line *line, const char *path);

/* A number there; negative when there is none. */
double audit_line_number(const struct audit_line *line, const char *path);

/* Of a member of a tree, the same. */
const char *audit_node_text(const struct tree_node *map, const char *key);
bool audit_node_is(const struct tree_node *map, const char *key);
double audit_node_number(const struct tree_node *map, const char *key);

/* Is it the beginning or the end of a request? */
bool audit_line_is_decision(const struct audit_line *line);
bool audit_line_is_end(const struct audit_line *line);

/* Of "/package.WorkspaceService/Exec" what tells people most: "WorkspaceService/Exec"; the many
 * MainServices are left out, their methods have names of their own. Others stay. */
const char *audit_method_text(const char *method);

enum { AUDIT_TIME_SIZE = 40 };

/* "2026-11-30 04:10:34.468" in UTC; without the date: "04:10:34.468". "" when there is no time. */
void audit_time_text(const Google__Protobuf__Timestamp *time, bool with_date,
                     char ret[AUDIT_TIME_SIZE]);

enum { AUDIT_AMOUNT_SIZE = 32 };

/* A time for people: "820 us", "12.3 ms", "4.52 s", "3 min 20 s", "2 h 05 min". */
void audit_duration_text(double milliseconds, char ret[AUDIT_AMOUNT_SIZE]);

/* "512 B", "1.5 KiB", "8.5 MiB" */
void audit_bytes_text(double bytes, char ret[AUDIT_AMOUNT_SIZE]);

#endif
