#ifndef CEL_EVAL_H
#define CEL_EVAL_H

#include "policy/cel/program.h"

/* Why an evaluation failed: made where it happens, put into words only at the end, since most
 * errors of policies are absorbed. Lives in the eval arena. */
struct failure {
    int code; /* enum policy_error */
    const struct node *node;
    const char *text;            /* literal, or in the arena */
    struct policy_value subject; /* quoted behind the text; ABSENT: nothing */
};

/* One evaluation. */
struct eval {
    struct arena *arena;
    const struct policy_value *vars;
    struct policy_value *locals;
    struct policy_value *memos; /* ABSENT: not met yet */
    size_t vars_count;
    int64_t fuel;       /* cost that may be used before the next look at the limits */
    uint64_t cost_left; /* beyond fuel */
    uint64_t iterations_left;
    const struct policy_input *input;
    struct failure fallback; /* for when the arena is full */
};

enum { EVAL_SLICE = 1000, EVAL_COST_DEFAULT = 1000000, EVAL_ITERATIONS_DEFAULT = 100000 };

struct policy_value eval_traced(struct eval *e, const struct node *n);

/* One call, not two of which one is taken: the result then stays in registers. */
static inline struct policy_value eval_node(struct eval *e, const struct node *n)
{
    node_run *run = __builtin_expect(e->input->trace != NULL, 0) ? eval_traced : n->run;
    return run(e, n);
}

static inline bool value_failed(struct policy_value v)
{
    return v.kind == POLICY_FAILURE;
}

static inline const struct failure *value_failure(struct policy_value v)
{
    return v.as.opaque;
}

/* Failures as values. text must be a literal or live in the eval arena. */
struct policy_value eval_fail(struct eval *e, const struct node *n, int code, const char *text);
struct policy_value eval_fail_on(struct eval *e, const struct node *n, int code, const char *text,
                                 struct policy_value subject);
struct policy_value eval_no_overload(struct eval *e, const struct node *n,
                                     struct policy_value subject);
struct policy_value eval_out_of_memory(struct eval *e, const struct node *n);

/* For the negated code that value_equal() and friends give. */
struct policy_value eval_fail_code(struct eval *e, const struct node *n, int negated_code);

bool eval_refuel(struct eval *e, uint64_t cost);
struct policy_value eval_limit(struct eval *e, const struct node *n);

/* Takes `cost` from the budget; false when it is used up or the deadline has passed: then
 * return eval_limit(). Charge before doing the work. */
static inline bool eval_charge(struct eval *e, uint64_t cost)
{
    if (__builtin_expect(cost <= (uint64_t)(e->fuel > 0 ? e->fuel : 0), 1)) {
        e->fuel -= (int64_t)cost;
        return true;
    }
    return eval_refuel(e, cost);
}

/* One more turn of a loop. */
bool eval_turn(struct eval *e);

/* The size of the text in a unit of cost. */
static inline uint64_t eval_text_cost(size_t bytes)
{
    return 1 + bytes / 10;
}

/* Elements of any list or entries of any map; negative policy_error on failure of the input. */
int eval_list_get(struct eval *e, const struct policy_list *list, size_t index,
                  struct policy_value *ret);

/* A list with room for count items, filled by the caller at *ret_items. */
struct policy_value eval_make_list(struct eval *e, const struct node *n, size_t count,
                                   struct policy_value **ret_items);
struct policy_value eval_make_optional(struct eval *e, const struct node *n,
                                       struct policy_value inner);
struct policy_value eval_make_map(struct eval *e, const struct node *n,
                                  struct policy_entry *entries, size_t count);

/* Text in the arena; NULL: out of memory (charged already). */
char *eval_alloc(struct eval *e, size_t bytes);
/* What to return after eval_alloc() or arena_alloc() gave NULL. */
struct policy_value eval_alloc_failed(struct eval *e, const struct node *n);
struct policy_value eval_take_text(uint8_t kind, const char *text, size_t len);

/* Node functions: cel/eval.c */
node_run run_const, run_variable, run_local, run_lazy, run_select, run_select_variable, run_has,
    run_opt_select, run_index, run_opt_index, run_and, run_or, run_not, run_negate, run_condition,
    run_binary, run_chain, run_equal, run_equal_text, run_in_name, run_in_set, run_call, run_list,
    run_map, run_bind, run_opt_map, run_opt_or, run_unbound;

/* cel/eval_loop.c */
node_run run_loop;

/* cel/eval_ops.c: l op r; both are values. */
struct policy_value eval_binary_op(struct eval *e, const struct node *n, uint8_t op,
                                   struct policy_value l, struct policy_value r);
struct policy_value eval_equal(struct eval *e, const struct node *n, struct policy_value l,
                               struct policy_value r);
struct policy_value eval_in(struct eval *e, const struct node *n, struct policy_value item,
                            struct policy_value container);
struct policy_value eval_negate(struct eval *e, const struct node *n, struct policy_value v);

/* Index and selection with optionals followed; `optional`: absence gives none. */
struct policy_value eval_index_of(struct eval *e, const struct node *n, struct policy_value target,
                                  struct policy_value key, bool optional);

#endif
