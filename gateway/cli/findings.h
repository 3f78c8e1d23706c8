#ifndef CLI_FINDINGS_H
#define CLI_FINDINGS_H

#include <stddef.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* What `doctor` found: each finding has a state (ok, note, problem), a subject and a text. */
struct finding {
    const char *state;
    const char *subject;
    const char *text;
    struct finding *next;
};

struct findings {
    struct arena *arena;
    struct finding *first;
    struct finding **last;
    size_t problems;
};

#define FINDING_OK "ok"
#define FINDING_NOTE "note"
#define FINDING_PROBLEM "problem"

/* The arena must outlive it. */
struct findings findings_in(struct arena *arena);

/* Copies the text that is formatted; subject and state are borrowed. An arena that is full loses it
 * and counts it as a problem. */
void findings_add(struct findings *f, const char *state, const char *subject, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));

/* Adds those of `cordium-executor --check --json`. INVALID_ARGUMENT when it is something else. */
int findings_add_json(struct findings *f, struct str json, struct error *err);

/* On standard output: a line each, or {"findings": [], "problems": N} as JSON or YAML. */
int findings_print(const struct findings *f, const char *format, struct error *err);

#endif
