#include "policy/decide/lint_expression.h"

enum { PATH_MAX_BYTES = 512 };

const char *lint_join_path(struct lint_run *run, const char *path, struct str name)
{
    if (!path || strlen(path) + name.len > PATH_MAX_BYTES) {
        return NULL;
    }
    return arena_printf(run->arena, "%s.%.*s", path, STR_ARG(name));
}

bool lint_is_guarded(const struct lint_run *run, const char *path)
{
    size_t len = strlen(path);
    for (size_t i = 0; i < run->guard_count; i++) {
        const char *g = run->guards[i];
        if (strncmp(g, path, len) == 0 && (g[len] == '\0' || g[len] == '.')) {
            return true;
        }
    }
    return false;
}

/* The path of a node without looking for doubts; NULL when it is none. */
static const char *path_of(struct lint_run *run, const struct ast *node)
{
    switch (node->kind) {
    case AST_VARIABLE:
        return node->variable == POLICY_VAR_CTX ? "ctx" : "attrs";
    case AST_LOCAL:
        for (size_t i = 0; i < run->local_count; i++) {
            if (run->locals[i].local == node->local) {
                return run->locals[i].path;
            }
        }
        return NULL;
    case AST_SELECT:
        return node->presence || node->optional
                   ? NULL
                   : lint_join_path(run, path_of(run, node->target), node->name);
    case AST_INDEX:
        return node->args[0]->kind == AST_CONST && node->args[0]->value.kind == POLICY_STRING
                   ? lint_join_path(run, path_of(run, node->target),
                                    policy_value_str(node->args[0]->value))
                   : NULL;
    default:
        return NULL;
    }
}

static void add_guard(struct lint_run *run, const char *path)
{
    if (path && run->guard_count < LINT_GUARDS_MAX) {
        run->guards[run->guard_count++] = path;
    }
}

/* How a look at the size of what is at a path stands among the guards. */
static const char *bounds_of(struct lint_run *run, const char *path)
{
    return path ? arena_printf(run->arena, "%s[...]", path) : NULL;
}

static bool is_comparison(uint8_t op)
{
    return op == OP_EQ || op == OP_NE || op == OP_LT || op == OP_LE || op == OP_GT || op == OP_GE;
}

/* size(x) > 3, 3 < x.size(): whatever is compared, the author thought of it. */
static void add_size_guards(struct lint_run *run, const struct ast *comparison)
{
    for (size_t i = 0; i < comparison->args_count; i++) {
        const struct ast *side = comparison->args[i];
        const struct ast *of = side->kind != AST_CALL || !str_is(side->name, "size") ? NULL
                               : side->target                                        ? side->target
                               : side->args_count == 1                               ? side->args[0]
                                                                                     : NULL;
        add_guard(run, of ? bounds_of(run, path_of(run, of)) : NULL);
    }
}

void lint_bounds(struct lint_run *run, const struct ast *node, const char *path)
{
    const char *bounds = bounds_of(run, path);
    if (run->missing == LINT_MISSING_HARMLESS || (bounds && lint_is_guarded(run, bounds))) {
        return;
    }
    const char *what = node->kind == AST_INDEX
                           ? "look at the size first, or write x[?n].orValue(...)"
                           : "look at the size first: size(x) >= n && ...";
    lint_point(run, node);
    if (run->missing == LINT_MISSING_DENY) {
        lint_report(run, POLICY_FINDING_DENY_ON_MISSING, what,
                    "this may be beyond the end, and then this DENY does not apply");
    } else {
        lint_report(run, POLICY_FINDING_ALLOW_ON_MISSING, what,
                    "this may be beyond the end, and then this negated condition of an ALLOW "
                    "matches");
    }
}

void lint_collect_guards(struct lint_run *run, const struct ast *node, bool truth)
{
    if (node->kind == AST_UNARY && node->op == OP_NOT) {
        lint_collect_guards(run, node->args[0], !truth);
    } else if (node->kind == AST_SELECT && node->presence && truth) {
        add_guard(run, lint_join_path(run, path_of(run, node->target), node->name));
    } else if (node->kind == AST_BINARY && node->op == OP_IN && truth &&
               node->args[0]->kind == AST_CONST && node->args[0]->value.kind == POLICY_STRING) {
        add_guard(run, lint_join_path(run, path_of(run, node->args[1]),
                                      policy_value_str(node->args[0]->value)));
    } else if (node->kind == AST_BINARY && is_comparison(node->op)) {
        add_size_guards(run, node);
    } else if (node->kind == AST_LOGIC && (node->op == OP_AND) == truth) {
        for (size_t i = 0; i < node->args_count; i++) {
            lint_collect_guards(run, node->args[i], truth);
        }
    }
}
