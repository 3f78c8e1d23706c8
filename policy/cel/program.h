#ifndef CEL_PROGRAM_H
#define CEL_PROGRAM_H

#include "policy/cel/ast.h"
#include "policy/cel/function.h"
#include "policy/cel/value.h"

struct eval;
struct node;
struct regex;

typedef struct policy_value node_run(struct eval *e, const struct node *n);

/* A prefix of a chain of selections that other chains begin with as well: what is found there is
 * remembered for the rest of the evaluation. */
struct node_memo {
    uint32_t count; /* of names, from the variable on */
    uint32_t slot;
};

/* A step of the plan. Which members mean something depends on `run`; see plan.c. Immutable. */
struct node {
    node_run *run;
    struct policy_value value; /* CONST; the member's name of a selection; the set of IN_SET */
    const struct node *a;
    const struct node *b;
    const struct node *c;
    const struct node *const *items;
    const struct policy_value *names; /* of a chain of selections */
    uint32_t count;                   /* of items or names */
    uint32_t slot;                    /* variable, or local */
    uint32_t slot2;
    const struct node_memo *memos; /* of a chain from a variable: shortest first */
    const uint8_t *memo_at;        /* slot + 1 of the memo after each name; 0: none */
    uint32_t memo_count;
    uint8_t op; /* enum ast_op, or enum loop_kind */
    bool flat;
    bool two_variables;
    const uint8_t *ops;        /* of a chain of operators */
    const bool *optional_args; /* of list and map literals */
    const struct overload *overloads;
    const void *constant; /* compiled regex */
    struct str name;      /* function, variable */
    const char *label;    /* for explain */
    uint32_t at;          /* places in the source text */
    uint32_t begin;
    uint32_t end;
};

enum { PROGRAM_MEMOS_MAX = 16 };

struct policy_program {
    struct str text;
    const struct node *root;
    const char *type_text;
    uint8_t type_kind; /* enum type_kind */
    uint32_t locals_count;
    uint32_t memo_count; /* at most PROGRAM_MEMOS_MAX */
    const struct policy_env *env;
};

/* cel/plan.c: NULL on failure, which is recorded in c. */
const struct node *plan_tree(struct compile *c, const struct ast *root);

#endif
