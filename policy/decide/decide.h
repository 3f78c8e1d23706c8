#ifndef DECIDE_DECIDE_H
#define DECIDE_DECIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/str.h"
#include "policy/decide/bundle.h"
#include "policy/decide/policy_set.h"
#include "policy/policy.h"

/* One decision: the policies attached to the request are collected, their rules ordered by
 * priority with DENY before ALLOW, and the first that matches decides. No match denies.
 *
 * Where Octelium goes on after a mistake, this denies: an attached policy that does not exist
 * (POLICY_MISSING), an expression that fails (EVALUATION_ERROR), also in an enforcement rule.
 * Input that is missing keeps Octelium's meaning, "the expression is false", unless is_strict. */

enum policy_reason {
    POLICY_REASON_NO_MATCH,         /* NO_POLICY_MATCH: no rule said anything */
    POLICY_REASON_MATCH,            /* POLICY_MATCH: a rule allowed or denied */
    POLICY_REASON_MISSING,          /* POLICY_MISSING: an attached policy does not exist */
    POLICY_REASON_EVALUATION_ERROR, /* EVALUATION_ERROR */
    POLICY_REASON_MISSING_INPUT,    /* MISSING_INPUT: strict mode only */
};

const char *policy_reason_name(enum policy_reason reason);

/* Something that policies hang on: a user, a group, the cluster's configuration. */
struct policy_attachment {
    struct str point; /* "User alice": how explanations name it */
    const struct str *names;
    size_t name_count;
    const struct policy_set *inline_policies; /* POLICY_SET_INLINE, or NULL */
    const struct policy_bundle *bundle;       /* of just these (bundle.h), or NULL; borrowed */
};

enum policy_rule_result {
    POLICY_RULE_FALSE,
    POLICY_RULE_TRUE,
    POLICY_RULE_MISSING, /* input is missing: counts as false for the expression */
    POLICY_RULE_ERROR,
};

/* What happened to one expression or condition while a decision was made; for explanations. */
struct policy_rule_step {
    struct str attached_to;
    struct str policy_name;
    bool is_inline;
    bool is_enforcement_rule;
    size_t rule_index;
    struct str rule_name; /* may be empty */
    enum policy_effect effect;
    int priority;
    unsigned depth; /* in the tree of conditions */
    enum policy_condition_kind kind;
    struct str text; /* of a leaf */
    enum policy_rule_result result;
    const char *detail; /* for MISSING and ERROR; dies with the callback */
};

struct policy_query {
    const struct policy_attachment *attachments; /* in order; the order breaks ties */
    size_t attachment_count;
    struct policy_value ctx;
    int64_t now_ns;       /* since 1970; what now() gives, everywhere in this decision */
    uint64_t deadline_ns; /* monotonic, on the clock below, for the whole decision; 0: none */
    uint64_t (*clock_ns)(void *); /* monotonic; needed for a deadline */
    void *clock_context;
    bool is_strict;
    void (*trace)(void *context, const struct policy_rule_step *step); /* may be NULL */
    /* Each sub-expression of a leaf, before the leaf's own step; offsets are in its text, and the
     * value dies with the callback. May be NULL. */
    void (*trace_value)(void *context, const struct policy_trace_step *step);
    void *trace_context;
};

enum {
    POLICY_EXPRESSION_COST_MAX = 1000000,          /* the original's bound */
    POLICY_EXPRESSION_MEMORY_MAX_BYTES = 16 << 20, /* of one evaluation */
};

/* Texts live as long as the set, the attachment or the arena, whichever is shortest. */
struct policy_decision {
    bool is_allowed;
    enum policy_reason reason;
    /* The rule that decided or failed; empty for NO_MATCH. For MISSING, the absent policy. */
    struct str policy_name;
    struct str policy_uid;
    struct str policy_resource_version;
    struct str attached_to;
    bool is_inline;
    bool is_enforcement_rule;
    size_t rule_index;
    struct str rule_name;
    int priority;
    enum policy_effect effect;
    uint64_t set_version;
    int error_code; /* enum policy_error, for the two last reasons */
    uint32_t error_line;
    uint32_t error_column;
    const char *detail; /* "" or what failed, for the admin; quotes request data escaped */
};

/* Always gives a decision: running out of memory is a denial too. `arena` holds what the decision
 * needs; the caller frees it after reading *ret. */
void policy_decide(const struct policy_set *set, const struct policy_query *query,
                   struct arena *arena, struct policy_decision *ret);

#endif
