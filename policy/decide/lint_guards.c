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
    } else if (node->kind == AST_LOGIC && (node->op == OP_AND) == truth) {
        for (size_t i = 0; i < node->args_count; i++) {
            lint_collect_guards(run, node->args[i], truth);
        }
    }
}
