#ifndef POLICYFILE_EXPLANATION_H
#define POLICYFILE_EXPLANATION_H

#include "api/ext.pb-c.h"
#include "policy/base/arena.h"
#include "policy/base/bytes.h"
#include "policy/decide/decide.h"

/* Collects what a decision did into the API's message, and writes that for people. */
struct explainer {
    struct arena *arena; /* of the message */
    Ext__Explanation *message;
    Ext__Explanation__Value **values; /* of the leaf to come */
    size_t value_count;
    size_t value_room;
    size_t step_room;
    bool is_cut; /* memory ran out, or there were too many steps */
};

enum { EXPLANATION_STEPS_MAX = 10000, EXPLANATION_VALUES_MAX = 200 };

/* False when the arena is full. */
bool explainer_init(struct explainer *e, struct arena *arena);

/* For policy_query.trace, .trace_value, with the explainer as context. */
void explainer_step(void *explainer, const struct policy_rule_step *step);
void explainer_value(void *explainer, const struct policy_trace_step *step);

/* Fills the outcome. */
void explainer_decide(struct explainer *e, const struct policy_decision *d);

/* The explanation as text; with_values shows each sub-expression. */
void explanation_print(const Ext__Explanation *message, bool with_values, struct buf *out);

#endif
