#include "policy/decide/decide.h"

#include <string.h>

#include "policy/decide/bundle_match.h"
#include "policy/decide/condition.h"
#include "policy/decide/policy_entry.h"

/* A policy that takes part in this decision. */
struct active_policy {
    const struct compiled_policy *policy;
    const struct policy_attachment *attachment;
    bool is_inline;
};

struct decision_run {
    const struct policy_set *set;
    const struct policy_query *query;
    struct arena *arena;
    struct arena scratch;
    struct active_policy *active;
    size_t active_count;
    size_t active_max;
    uint8_t *seen; /* bit per named policy: it counts once, at its first attachment */
    struct policy_value vars[2];
    struct condition_run condition;
    /* What is being evaluated, for traces. */
    const struct active_policy *current;
    const struct compiled_rule *current_rule; /* NULL in an enforcement rule */
    size_t current_index;
    struct policy_decision *decision;
};

enum { SCRATCH_LENT_BYTES = 16384, VALUES_LENT_BYTES = 4096, VALUES_MAX = 128 };

const char *policy_reason_name(enum policy_reason reason)
{
    switch (reason) {
    case POLICY_REASON_NO_MATCH:
        return "NO_POLICY_MATCH";
    case POLICY_REASON_MATCH:
        return "POLICY_MATCH";
    case POLICY_REASON_MISSING:
        return "POLICY_MISSING";
    case POLICY_REASON_EVALUATION_ERROR:
        return "EVALUATION_ERROR";
    case POLICY_REASON_MISSING_INPUT:
        return "MISSING_INPUT";
    }
    return "NO_POLICY_MATCH";
}

static void trace_condition(struct condition_run *condition, const struct condition *c,
                            unsigned depth, enum policy_rule_result result)
{
    struct decision_run *run = condition->trace_context;
    const struct compiled_rule *rule = run->current_rule;
    bool has_detail = result == POLICY_RULE_MISSING || result == POLICY_RULE_ERROR;
    struct policy_rule_step step = {
        .attached_to = run->current->attachment->point,
        .policy_name = run->current->policy->name,
        .is_inline = run->current->is_inline,
        .is_enforcement_rule = !rule,
        .rule_index = run->current_index,
        .rule_name = rule ? rule->name : STR_NONE,
        .effect = rule ? rule->effect : POLICY_EFFECT_UNSET,
        .priority = rule ? rule->priority : 0,
        .depth = depth,
        .kind = c->kind,
        .text = c->text,
        .result = result,
        .detail = has_detail ? condition->error.text : "",
    };
    run->query->trace(run->query->trace_context, &step);
}

/* The rule being judged ends the decision, with a denial unless the caller says otherwise.
 * Always returns false: "stop here". */
static bool decide_here(struct decision_run *run, enum policy_reason reason)
{
    struct policy_decision *d = run->decision;
    const struct active_policy *a = run->current;
    const struct compiled_rule *rule = run->current_rule;
    d->is_allowed = false;
    d->reason = reason;
    d->policy_name = a->policy->name;
    d->policy_uid = a->policy->uid;
    d->policy_resource_version = a->policy->resource_version;
    d->attached_to = a->attachment->point;
    d->is_inline = a->is_inline;
    d->is_enforcement_rule = !rule;
    d->rule_index = run->current_index;
    d->rule_name = rule ? rule->name : STR_NONE;
    d->priority = rule ? rule->priority : 0;
    d->effect = rule ? rule->effect : POLICY_EFFECT_UNSET;
    d->error_code = run->condition.error_code;
    d->error_line = run->condition.error.line;
    d->error_column = run->condition.error.column;
    d->detail = arena_strdup(run->arena, run->condition.error.text);
    d->detail = d->detail ? d->detail : "out of memory";
    return false;
}

static bool refuse_memory(struct decision_run *run)
{
    run->decision->is_allowed = false;
    run->decision->reason = POLICY_REASON_EVALUATION_ERROR;
    run->decision->error_code = POLICY_E_MEMORY;
    run->decision->detail = "out of memory";
    return false;
}

static bool refuse_missing(struct decision_run *run, const struct policy_attachment *attachment,
                           struct str name)
{
    struct policy_decision *d = run->decision;
    d->reason = POLICY_REASON_MISSING;
    d->policy_name = name;
    d->attached_to = attachment->point;
    d->detail = "the attached policy does not exist";
    return false;
}

static enum condition_result judge(struct decision_run *run, const struct active_policy *a,
                                   const struct compiled_rule *rule, size_t index,
                                   const struct condition *condition)
{
    run->current = a;
    run->current_rule = rule;
    run->current_index = index;
    run->vars[POLICY_VAR_ATTRS] = a->policy->attrs;
    return condition_eval(condition, &run->condition);
}

/* Does the policy take part? ENFORCE rules are asked first, then IGNORE rules; nothing matches:
 * it does. An error denies: passing over a failed ENFORCE could silence a policy that denies. */
static bool is_in_force(struct decision_run *run, const struct active_policy *a, bool *ret)
{
    *ret = true;
    for (size_t i = 0; i < a->policy->enforcement_count; i++) {
        const struct compiled_enforcement *e = &a->policy->enforcement[i];
        enum condition_result result = judge(run, a, NULL, e->index, &e->condition);
        if (result == CONDITION_ERROR) {
            return decide_here(run, POLICY_REASON_EVALUATION_ERROR);
        }
        if (run->condition.has_missing && run->query->is_strict) {
            return decide_here(run, POLICY_REASON_MISSING_INPUT);
        }
        if (result == CONDITION_TRUE) {
            *ret = e->effect == POLICY_ENFORCE;
            return true;
        }
    }
    return true;
}

static bool add_policy(struct decision_run *run, const struct policy_attachment *attachment,
                       const struct compiled_policy *policy, bool is_inline)
{
    struct active_policy a = {policy, attachment, is_inline};
    bool in_force;
    if (policy->is_disabled) {
        return true;
    }
    if (!is_in_force(run, &a, &in_force)) {
        return false;
    }
    if (in_force) {
        run->active[run->active_count++] = a;
    }
    return true;
}

static bool add_named(struct decision_run *run, const struct policy_attachment *attachment,
                      struct str name)
{
    uint32_t at = policy_set_find(run->set, name);
    if (at == POLICY_INDEX_NONE) {
        return refuse_missing(run, attachment, name);
    }
    for (; at != POLICY_INDEX_NONE; at = run->set->policies[at].parent) {
        uint8_t bit = (uint8_t)(1u << (at & 7));
        bool was_seen = run->seen[at >> 3] & bit;
        run->seen[at >> 3] |= bit;
        if (!was_seen && !add_policy(run, attachment, &run->set->policies[at], false)) {
            return false;
        }
    }
    return true;
}

/* Fills run->active; false when the decision fell on the way. */
static bool collect(struct decision_run *run)
{
    for (size_t i = 0; i < run->query->attachment_count; i++) {
        const struct policy_attachment *attachment = &run->query->attachments[i];
        for (size_t k = 0; k < attachment->name_count; k++) {
            if (!add_named(run, attachment, attachment->names[k])) {
                return false;
            }
        }
        const struct policy_set *inline_set = attachment->inline_policies;
        for (size_t k = 0; inline_set && k < inline_set->count; k++) {
            if (!add_policy(run, attachment, &inline_set->policies[k], true)) {
                return false;
            }
        }
    }
    return true;
}

/* Missing input that could have opened a door: a DENY that did not fire, or a match that came from
 * negation. A plain ALLOW that did not match for want of input is closed already. */
static bool is_suspect(const struct condition_run *condition, const struct compiled_rule *rule)
{
    return condition->has_missing &&
           (rule->effect == POLICY_DENY || condition->has_missing_under_negation);
}

/* True: go on with the next rule. */
static bool try_rule(struct decision_run *run, const struct active_policy *a,
                     const struct compiled_rule *rule)
{
    enum condition_result result = judge(run, a, rule, rule->index, &rule->condition);
    if (result == CONDITION_ERROR) {
        return decide_here(run, POLICY_REASON_EVALUATION_ERROR);
    }
    if (run->query->is_strict && is_suspect(&run->condition, rule)) {
        return decide_here(run, POLICY_REASON_MISSING_INPUT);
    }
    if (result == CONDITION_FALSE) {
        return true;
    }
    run->condition.error = (struct error){0};
    run->condition.error_code = 0;
    (void)decide_here(run, POLICY_REASON_MATCH);
    run->decision->is_allowed = rule->effect == POLICY_ALLOW;
    return false;
}

static void try_rules(struct decision_run *run)
{
    for (unsigned c = 0; c < RULE_CLASS_COUNT; c++) {
        for (size_t i = 0; i < run->active_count; i++) {
            const struct compiled_policy *p = run->active[i].policy;
            for (unsigned k = p->class_start[c]; k < p->class_start[c + 1]; k++) {
                if (!try_rule(run, &run->active[i], &p->rules[k])) {
                    return;
                }
            }
        }
    }
}

static size_t active_bound(const struct policy_set *set, const struct policy_query *query)
{
    size_t bound = 0;
    size_t named = 0;
    for (size_t i = 0; i < query->attachment_count; i++) {
        const struct policy_attachment *a = &query->attachments[i];
        named += a->name_count * (POLICY_PARENTS_MAX + 1);
        bound += a->inline_policies ? a->inline_policies->count : 0;
    }
    return bound + (named < set->count ? named : set->count);
}

static bool is_late(const struct policy_query *q)
{
    return q->deadline_ns && q->clock_ns && q->clock_ns(q->clock_context) >= q->deadline_ns;
}

/* Can the decision be made from bundles (bundle_match.h)? Each attachment needs one, or nothing to
 * attach. */
static bool has_bundles(const struct policy_set *set, const struct policy_query *query)
{
    for (size_t i = 0; i < query->attachment_count; i++) {
        const struct policy_attachment *a = &query->attachments[i];
        bool is_empty = a->name_count == 0 && !a->inline_policies;
        if (a->bundle ? policy_bundle_set(a->bundle) != set : !is_empty) {
            return false;
        }
    }
    return !query->is_strict && !query->trace && !query->trace_value &&
           query->ctx.kind != POLICY_ABSENT;
}

/* One attachment's part in a decision made from bundles. */
struct bundle_run {
    const struct policy_bundle *bundle; /* NULL: nothing is attached */
    const struct policy_attachment *attachment;
    uint64_t *bits;  /* the rules to ask */
    uint8_t *is_off; /* byte per policy; NULL: none is */
    bool has_bits;
};

/* A named policy counts once, at its first attachment. */
static bool counts_before(const struct bundle_run *runs, size_t at, uint32_t index)
{
    for (size_t i = 0; index != POLICY_INDEX_NONE && i < at; i++) {
        if (runs[i].bundle && bundle_holds(runs[i].bundle, index)) {
            return true;
        }
    }
    return false;
}

static struct active_policy active_of(const struct bundle_run *r, uint32_t policy)
{
    const struct bundle_policy *p = &r->bundle->policies[policy];
    return (struct active_policy){p->policy, r->attachment, p->index == POLICY_INDEX_NONE};
}

/* What collect() does; false when the decision fell on the way. */
static bool collect_bundle(struct decision_run *run, struct bundle_run *runs, size_t at)
{
    struct bundle_run *r = &runs[at];
    const struct policy_bundle *b = r->bundle;
    if (b->event_count > 0) {
        r->is_off = arena_zalloc(run->arena, b->policy_count + 1);
        if (!r->is_off) {
            return refuse_memory(run);
        }
    }
    for (size_t i = 0; i < b->event_count; i++) {
        const struct bundle_event *e = &b->events[i];
        bool in_force;
        if (e->policy == BUNDLE_NONE) {
            return refuse_missing(run, r->attachment, e->missing);
        }
        if (counts_before(runs, at, b->policies[e->policy].index)) {
            continue;
        }
        struct active_policy a = active_of(r, e->policy);
        if (!is_in_force(run, &a, &in_force)) {
            return false;
        }
        r->is_off[e->policy] = !in_force;
    }
    return true;
}

/* Asks the rules of one class and attachment whose bits are set. True: go on. */
static bool try_bundle(struct decision_run *run, const struct bundle_run *runs, size_t at,
                       unsigned class)
{
    const struct bundle_run *r = &runs[at];
    const struct policy_bundle *b = r->bundle;
    uint32_t end = b->class_start[class + 1];
    for (uint32_t rule = b->class_start[class]; rule < end; rule++) {
        uint64_t rest = r->bits[rule >> 6] >> (rule & 63);
        if (!rest) {
            rule |= 63;
            continue;
        }
        rule += (uint32_t)__builtin_ctzll(rest);
        if (rule >= end) {
            break;
        }
        uint32_t policy = b->rules[rule].policy;
        if ((r->is_off && r->is_off[policy]) ||
            counts_before(runs, at, b->policies[policy].index)) {
            continue;
        }
        struct active_policy a = active_of(r, policy);
        if (!try_rule(run, &a, b->rules[rule].rule)) {
            return false;
        }
    }
    return true;
}

static void try_bundles(struct decision_run *run, const struct bundle_run *runs, size_t count)
{
    for (unsigned c = 0; c < RULE_CLASS_COUNT; c++) {
        for (size_t i = 0; i < count; i++) {
            if (runs[i].has_bits && !try_bundle(run, runs, i, c)) {
                return;
            }
        }
    }
}

/* Chooses the rules to ask. False: it cannot be told. */
static bool match_bundles(struct decision_run *run, struct bundle_run *runs, size_t count)
{
    _Alignas(16) char lent[VALUES_LENT_BYTES];
    struct bundle_value items[VALUES_MAX];
    struct arena arena;
    struct bundle_values values = {
        .arena = &arena, .ctx = run->query->ctx, .items = items, .room = VALUES_MAX};
    bool ok = true;
    arena_init_with(&arena, lent, sizeof lent, BUNDLE_VALUES_MAX_BYTES);
    for (size_t i = 0; ok && i < count; i++) {
        const struct policy_bundle *b = runs[i].bundle;
        runs[i].bits = arena_alloc(run->arena, b->word_count * sizeof *runs[i].bits);
        ok = runs[i].bits && bundle_match(b, &values, runs[i].bits, &runs[i].has_bits);
    }
    arena_free(&arena);
    return ok;
}

/* True when the decision was made. */
static bool decide_by_bundles(struct decision_run *run)
{
    const struct policy_query *q = run->query;
    struct bundle_run *runs = arena_calloc(run->arena, q->attachment_count, sizeof *runs);
    size_t count = 0;
    for (size_t i = 0; runs && i < q->attachment_count; i++) {
        if (q->attachments[i].bundle) {
            runs[count++] = (struct bundle_run){.bundle = q->attachments[i].bundle,
                                                .attachment = &q->attachments[i]};
        }
    }
    if (!runs || !match_bundles(run, runs, count)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!collect_bundle(run, runs, i)) {
            return true;
        }
    }
    try_bundles(run, runs, count);
    return true;
}

/* The same by looking at all rules. */
static void decide_by_rules(struct decision_run *run)
{
    const struct policy_set *set = run->set;
    run->active = arena_calloc(run->arena, active_bound(set, run->query), sizeof *run->active);
    run->seen = arena_zalloc(run->arena, set->count / 8 + 1);
    if (!run->active || !run->seen) {
        (void)refuse_memory(run);
    } else if (collect(run)) {
        try_rules(run);
    }
}

static struct policy_value timestamp_from_ns(int64_t ns)
{
    int64_t seconds = ns / 1000000000;
    int64_t nanos = ns % 1000000000;
    if (nanos < 0) {
        seconds--;
        nanos += 1000000000;
    }
    return policy_timestamp(seconds, (uint32_t)nanos);
}

void policy_decide(const struct policy_set *set, const struct policy_query *query,
                   struct arena *arena, struct policy_decision *ret)
{
    _Alignas(16) char lent[SCRATCH_LENT_BYTES];
    struct decision_run run = {.set = set, .query = query, .arena = arena, .decision = ret};
    *ret = (struct policy_decision){
        .reason = POLICY_REASON_NO_MATCH, .set_version = set->version, .detail = ""};
    arena_init_with(&run.scratch, lent, sizeof lent, POLICY_EXPRESSION_MEMORY_MAX_BYTES);
    run.vars[POLICY_VAR_CTX] = query->ctx;
    run.condition = (struct condition_run){
        .input = {.vars = run.vars,
                  .vars_count = 2,
                  .now = timestamp_from_ns(query->now_ns),
                  .cost_max = POLICY_EXPRESSION_COST_MAX,
                  .deadline_ns = query->deadline_ns,
                  .clock_ns = query->clock_ns,
                  .clock_context = query->clock_context,
                  .trace = query->trace_value,
                  .trace_context = query->trace_context,
                  .is_brief = !query->trace && !query->is_strict},
        .scratch = &run.scratch,
        .trace = query->trace ? trace_condition : NULL,
        .trace_context = &run,
    };
    if (!has_bundles(set, query) || is_late(query) || !decide_by_bundles(&run)) {
        decide_by_rules(&run);
    }
    arena_free(&run.scratch);
}
