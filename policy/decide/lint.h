#ifndef DECIDE_LINT_H
#define DECIDE_LINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/decide/policy_set.h"
#include "policy/decide/shape.h"
#include "policy/policy.h"

/* Doubts about policies that compile: rules that cannot match, that are decided elsewhere, or that
 * open a door when something is absent. */

enum policy_severity {
    POLICY_SEVERITY_NOTE,    /* worth knowing; may well be meant */
    POLICY_SEVERITY_WARNING, /* may do what is not meant */
    POLICY_SEVERITY_ERROR,   /* cannot do what is written */
};

const char *policy_severity_name(enum policy_severity severity);

/* Where in a policy: a rule, a condition below it, bytes of its expression. */
struct policy_place {
    enum policy_section {
        POLICY_SECTION_POLICY, /* the policy as a whole */
        POLICY_SECTION_RULE,
        POLICY_SECTION_ENFORCEMENT,
        POLICY_SECTION_ATTR,
    } section;
    size_t rule_index;
    uint8_t depth;                                /* of path */
    uint8_t path[POLICY_CONDITION_DEPTH_MAX + 1]; /* which child of all/any/none, downwards */
    bool has_range;
    uint32_t begin; /* byte offsets in the expression, when has_range */
    uint32_t end;
    struct str attr; /* POLICY_SECTION_ATTR */
};

/* The kinds of findings, in lint_codes.def; codes are stable. */
enum policy_finding_code {
#define FINDING(name, severity, code, summary) POLICY_FINDING_##name,
#include "policy/decide/lint_codes.def"
#undef FINDING
    POLICY_FINDING_COUNT
};

struct policy_finding_kind {
    const char *code; /* "deny-on-missing" */
    enum policy_severity severity;
    const char *summary; /* one sentence, of the kind */
};

const struct policy_finding_kind *policy_finding_kind(enum policy_finding_code code);

/* Texts die with the callback. */
struct policy_finding {
    enum policy_finding_code code;
    size_t policy; /* index in the array that was given */
    struct policy_place place;
    const char *text;   /* what is wrong, with names */
    const char *remedy; /* what to write instead; may be "" */
};

struct policy_lint {
    const struct policy_env *env;
    struct policy_shape ctx; /* POLICY_SHAPE_ANY: members are not looked at */
    void (*found)(void *arg, const struct policy_finding *finding);
    void *arg;
};

enum { POLICY_LINT_MEMORY_MAX_BYTES = 64 << 20, POLICY_LINT_FINDINGS_MAX = 1000 };

/* Looks at the policies one by one and at each other. Expressions that do not compile are passed
 * over: policy_set_add() has told about these. `policies` are in the order of a set; disabled ones
 * are looked at like others. Gives the number of findings. */
size_t policy_lint_policies(const struct policy_lint *lint, const struct policy_source *policies,
                            size_t count);

/* For other checkers of texts: the bytes of the n-th line (from 1) and column (characters, from 1)
 * of a text; its end when it is shorter. */
size_t policy_text_offset(struct str text, uint32_t line, uint32_t column);

#endif
