#ifndef CEL_AST_H
#define CEL_AST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/cel/type.h"
#include "policy/policy.h"

/* The tree of an expression, as the parser makes it and as the resolver and the checker
 * annotate it. Everything lives in the compile arena. */
enum ast_kind {
    AST_CONST,
    AST_IDENT,     /* name; a leading dot shows in `absolute` */
    AST_LOCAL,     /* after resolving: a variable of a macro */
    AST_VARIABLE,  /* after resolving: a declared variable */
    AST_UNBOUND,   /* after resolving without checker: no such name */
    AST_SELECT,    /* target.name; `optional`: target.?name; `presence`: has(target.name) */
    AST_INDEX,     /* target[args[0]]; `optional`: target[?args[0]] */
    AST_CALL,      /* name(args) or target.name(args) */
    AST_LIST,      /* args, with optional elements marked */
    AST_MAP,       /* args: key, value, key, value */
    AST_MESSAGE,   /* name{...}: parsed, never accepted */
    AST_UNARY,     /* op args[0] */
    AST_BINARY,    /* args[0] op args[1]; long chains lean to the left */
    AST_LOGIC,     /* args[0] && args[1] && ..., or || */
    AST_CONDITION, /* args[0] ? args[1] : args[2] */
    AST_LOOP,      /* a comprehension */
    AST_BIND,      /* cel.bind(var1, range, body) */
    AST_OPT_MAP,   /* range.optMap(var1, body); `flat`: optFlatMap */
};

enum ast_op {
    OP_NONE,
    OP_NOT,
    OP_NEGATE,
    OP_AND,
    OP_OR,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_MOD,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_COUNT,
};

enum loop_kind {
    LOOP_ALL,
    LOOP_EXISTS,
    LOOP_EXISTS_ONE,
    LOOP_LIST,      /* map, filter, transformList: filter and body, either may be NULL */
    LOOP_MAP,       /* transformMap */
    LOOP_MAP_ENTRY, /* transformMapEntry */
    LOOP_SORT_BY,
};

struct node;

/* A variable that a macro declares. */
struct local {
    struct str name;
    uint32_t slot; /* unique in the program */
    bool lazy;     /* of cel.bind: evaluated when first asked for */
    const struct type *type;
    const struct node *init; /* of a lazy one: its plan */
};

struct ast {
    uint8_t kind; /* enum ast_kind */
    uint8_t op;   /* enum ast_op, or enum loop_kind */
    bool absolute;
    bool optional;
    bool presence;
    bool flat;
    uint16_t depth; /* of the tree below, chains counted as one */
    uint32_t at;    /* byte offset that errors point to */
    uint32_t begin;
    uint32_t end;
    struct str name;
    struct policy_value value; /* CONST */
    struct ast *target;        /* SELECT, INDEX, CALL; range of LOOP, BIND, OPT_MAP */
    struct ast **args;
    bool *optional_args; /* LIST, MAP: which are marked with '?'; NULL: none */
    size_t args_count;
    struct local *local; /* LOCAL; first variable of LOOP, BIND, OPT_MAP */
    struct local *local2;
    struct ast *filter;
    struct ast *body;
    size_t variable;                 /* VARIABLE */
    const struct overload *overload; /* CALL: first of those with its name and style */
    size_t overload_count;
    const struct type *type; /* after checking */
};

struct ast_vec {
    struct ast **items;
    size_t count;
    size_t room;
};

struct policy_env;

enum { COMPILE_CHAINS_MAX = 64 };

/* One compilation. The first error sets `status` and *err; later ones change nothing. */
struct compile {
    const struct policy_env *env;
    struct arena *arena;
    struct str text;
    struct error *err;
    int status; /* 0 or negative enum status */
    uint32_t locals_count;
    struct type_context types;
    struct node *chains[COMPILE_CHAINS_MAX]; /* selections from variables, for plan.c */
    uint32_t chain_count;
    uint32_t memo_count; /* places where evaluations remember what they found */
};

/* Records an error at a byte offset, with the line and a caret. Return NULL / the status. */
void *compile_fail(struct compile *c, uint32_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int compile_fail_status(struct compile *c, int status, uint32_t at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void *compile_out_of_memory(struct compile *c);

struct ast *ast_new(struct compile *c, enum ast_kind kind, uint32_t at);
bool ast_vec_add(struct compile *c, struct ast_vec *vec, struct ast *item);

/* Computes depth from the children; fails the compilation past POLICY_DEPTH_MAX. */
struct ast *ast_finish(struct compile *c, struct ast *node);
const char *ast_op_text(uint8_t op);

/* The operator's name in the function table ("_+_"). */
const char *ast_op_function(uint8_t op);

/* cel/parse.c: text to tree, macros expanded. NULL on failure. */
struct ast *parse_expression(struct compile *c);

/* cel/macros.c: gives the call, or what it expands to; NULL on failure. */
struct ast *macro_expand(struct compile *c, struct ast *call);

/* cel/resolve.c: finds what names mean. Unknown ones fail when `strict`, else become UNBOUND. */
bool resolve_names(struct compile *c, struct ast **root, bool strict);

/* cel/check.c: types of all nodes; false on failure. */
bool check_types(struct compile *c, struct ast *root);

#endif
