#ifndef DECIDE_LINT_EXPRESSION_H
#define DECIDE_LINT_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/cel/ast.h"
#include "policy/decide/lint.h"

/* The part of the linter that looks into expressions; internal to policy/decide. */

enum { LINT_GUARDS_MAX = 128, LINT_LOCALS_MAX = 64, LINT_REPORTED_MAX = 64 };

/* What it means for the rule when an expression lacks its input, which makes it false. */
enum lint_missing {
    LINT_MISSING_HARMLESS,
    LINT_MISSING_DENY,  /* a DENY does not fire */
    LINT_MISSING_ALLOW, /* an ALLOW fires */
};

struct lint_local {
    const struct local *local;
    struct policy_shape shape;
    const char *path; /* NULL: no part of the input */
};

/* One policy under the lens. */
struct lint_run {
    const struct policy_lint *lint;
    struct arena *arena; /* of this policy */
    const struct policy_source *source;
    size_t policy;
    struct policy_place place; /* of what is looked at */
    struct policy_shape attrs;
    bool *attr_used; /* by index; all set when `attrs` is used as a whole */
    size_t attr_count;
    struct str *attr_names;
    enum lint_missing missing;
    const char *guards[LINT_GUARDS_MAX]; /* paths that are there when the rule matters */
    size_t guard_count;
    const char *reported[LINT_REPORTED_MAX]; /* paths that this rule was told of */
    size_t reported_count;
    struct lint_local locals[LINT_LOCALS_MAX];
    size_t local_count;
    bool is_variable; /* the expression reads ctx, attrs or the clock */
    size_t found;
};

void lint_report(struct lint_run *run, enum policy_finding_code code, const char *remedy,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Parses and resolves; NULL when the text does not compile. */
struct ast *lint_parse(struct lint_run *run, struct str text);

/* lint_guards.c: what must be there when the expression is `truth`; adds to run->guards. */
void lint_collect_guards(struct lint_run *run, const struct ast *node, bool truth);

/* Tells that what `node` reads, at an index or by substring() and the like, may be beyond the end
 * of the list or text at `path` (NULL: unknown), unless its size was looked at. */
void lint_bounds(struct lint_run *run, const struct ast *node, const char *path);

/* Is this path, or one that goes on from it, among them? */
bool lint_is_guarded(const struct lint_run *run, const char *path);

/* "ctx.user" and "spec": "ctx.user.spec". NULL for path NULL, and when it gets too long to be
 * meant. */
const char *lint_join_path(struct lint_run *run, const char *path, struct str name);

/* Reports what is doubtful in an expression. `run->missing` and the guards are set. */
void lint_expression(struct lint_run *run, const struct ast *root);

/* lint_operators.c: what two operands make of an operator. */
struct lint_seen {
    struct policy_shape shape;
    const char *path; /* "ctx.user.spec.type"; NULL: not a part of the input */
    uint8_t kind;     /* enum policy_kind of the value, or KIND_ANY */
    bool is_reported; /* its absence has been told */
};

void lint_comparison(struct lint_run *run, const struct ast *node, const struct lint_seen *left,
                     const struct lint_seen *right);
void lint_arithmetic(struct lint_run *run, const struct ast *node, const struct lint_seen *left,
                     const struct lint_seen *right);
void lint_call(struct lint_run *run, const struct ast *node, const struct lint_seen *target);
/* What a value of that shape, or the result of that call, is for operators; KIND_ANY: unknown. */
uint8_t lint_kind_of_shape(const struct policy_shape *shape);
uint8_t lint_kind_of_call(const struct ast *node);

/* Puts the place of a node under the next report. */
void lint_point(struct lint_run *run, const struct ast *node);

#endif
