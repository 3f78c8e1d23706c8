#ifndef AUDIT_AUDIT_READER_H
#define AUDIT_AUDIT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* Reads the newest lines of the audit log, which its writer may go on appending to. Lines that are
 * not whole yet are not seen. */

enum {
    AUDIT_READ_LINES_MAX = 5000,
    AUDIT_READ_BYTES_MAX = 64 << 20, /* of the file's end that are looked at */
};

/* One decision, as far as its line tells. Texts are in the arena and never NULL. */
struct audit_line {
    const char *id; /* metadata.id */
    const char *started_at_text;
    int64_t started_at_ns;
    const char *path; /* of the method */
    const char *reason;
    const char *user_name;
    const char *user_uid;
    const char *session_uid;
    const char *space_uid; /* "" for none */
    const char *template_uid;
    const char *workspace_uid;
    const char *peer;
    bool is_allowed;
    bool in_workspace;
    uint64_t policy_set_version;
    bool has_run;
    uint8_t command_sha256[32];
    size_t command_bytes;
    const char *working_dir;
    bool as_root, has_stdin, is_terminal;
    const char *const *env_names;
    size_t env_name_count;
};

/* The newest `count_max` decision lines, oldest first. */
int audit_read_decisions(const char *audit_dir, size_t count_max, struct arena *arena,
                         struct audit_line **ret, size_t *ret_count, struct error *err);

/* What a line of the log tells, when it is a decision. */
bool audit_parse_decision(struct str line, struct arena *arena, struct audit_line *ret);

/* The decision line with that metadata.id. NOT_FOUND. */
int audit_read_decision(const char *audit_dir, const char *id, struct arena *arena,
                        struct audit_line *ret, struct error *err);

#endif
