#ifndef POLICYFILE_DIAGNOSTIC_H
#define POLICYFILE_DIAGNOSTIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/base/str.h"
#include "policy/decide/lint.h"

/* What a checker has to say about a file, for people and for programs. */
struct diagnostic {
    const char *file; /* as it was named; "" for a text without a file */
    uint32_t line;    /* from 1; 0: of the file as a whole */
    uint32_t column;  /* in characters */
    uint32_t length;  /* in characters, on that line; 1 at least */
    enum policy_severity severity;
    const char *code; /* "yaml-colon": stable */
    const char *text;
    const char *remedy;     /* "" for none */
    const char *subject;    /* "Policy 'x': rule #2"; NULL for none */
    uint32_t document_line; /* where its YAML document begins; 0: not known */
    struct str source;      /* the line; empty when there is no place */
};

struct diagnostics {
    struct arena *arena;
    struct diagnostic *items;
    size_t count;
    size_t room;
    size_t by_severity[3];
    bool is_cut; /* there were more than DIAGNOSTICS_MAX, or memory ran out */
};

enum {
    DIAGNOSTICS_MAX = 10000,
    DIAGNOSTIC_SOURCE_MAX_BYTES = 1024, /* longer lines are not shown */
};

void diagnostics_init(struct diagnostics *d, struct arena *arena);

/* Texts are copied; `source` and `file` are borrowed. */
void diagnostics_add(struct diagnostics *d, const struct diagnostic *item);

/* True when diagnostics_add() will do no more than count. */
bool diagnostics_is_full(const struct diagnostics *d);

/* By file, line and column; stable. */
void diagnostics_sort(struct diagnostics *d);

enum diagnostic_format { DIAGNOSTIC_TEXT, DIAGNOSTIC_JSON, DIAGNOSTIC_SARIF };

/* Text: "FILE:3:12: error: … [code]", the line and a caret. JSON: {"diagnostics": [...], counts}.
 * SARIF: version 2.1.0 (docs.oasis-open.org/sarif). */
void diagnostics_print(const struct diagnostics *d, enum diagnostic_format format, struct buf *out);

/* What stands below the source line to point at the place: blanks (tabs where the line has them),
 * '^', and '~' for the rest. */
void diagnostic_underline(const struct diagnostic *item, struct buf *out);

/* The summary of a code, for documents and SARIF; iterate until NULL. */
const char *diagnostic_code_at(size_t i, enum policy_severity *ret_severity,
                               const char **ret_summary);

#endif
