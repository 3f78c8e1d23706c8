#include "policy/cel/eval.h"

#include "policy/lib/text.h"

/* The standard string predicates. matches() is in regex_functions.c. */

static struct policy_value contains(struct eval *e, const struct node *n,
                                    const struct policy_value *args)
{
    if (!eval_charge(e, eval_text_cost(args[0].len))) {
        return eval_limit(e, n);
    }
    return policy_bool(text_find(policy_value_str(args[0]), policy_value_str(args[1]), 0) !=
                       TEXT_NOWHERE);
}

static struct policy_value starts_with(struct eval *e, const struct node *n,
                                       const struct policy_value *args)
{
    if (!eval_charge(e, eval_text_cost(args[1].len))) {
        return eval_limit(e, n);
    }
    return policy_bool(str_starts_with(policy_value_str(args[0]), policy_value_str(args[1])));
}

static struct policy_value ends_with(struct eval *e, const struct node *n,
                                     const struct policy_value *args)
{
    if (!eval_charge(e, eval_text_cost(args[1].len))) {
        return eval_limit(e, n);
    }
    return policy_bool(str_ends_with(policy_value_str(args[0]), policy_value_str(args[1])));
}

static const struct function_row rows[] = {
    {"contains", FUNCTION_MEMBER, "string, string -> bool", contains},
    {"startsWith", FUNCTION_MEMBER, "string, string -> bool", starts_with},
    {"endsWith", FUNCTION_MEMBER, "string, string -> bool", ends_with},
};

const struct function_table functions_strings = {0, rows, sizeof rows / sizeof rows[0]};
