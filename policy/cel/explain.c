#include "policy/policy.h"

#include "policy/cel/program.h"

enum { INDENT = 2, EXPLAIN_DEPTH_MAX = 600, CONSTANT_BYTES_MAX = 80 };

static void explain_node(const struct node *n, unsigned depth, struct buf *out);

static void explain_line(const struct node *n, unsigned depth, struct buf *out)
{
    buf_printf(out, "%*s%s", (int)(depth * INDENT), "", n->label);
    if (strcmp(n->label, "const") == 0) {
        buf_add_cstr(out, " ");
        policy_value_print(n->value, CONSTANT_BYTES_MAX, out);
    } else if (n->value.kind == POLICY_STRING) {
        buf_printf(out, " .%.*s", STR_ARG(policy_value_str(n->value)));
    } else if (n->name.len > 0 && !str_is(n->name, n->label)) {
        buf_printf(out, " %.*s", STR_ARG(n->name));
    }
    for (uint32_t i = 0; n->names && i < n->count; i++) {
        buf_printf(out, ".%.*s", STR_ARG(policy_value_str(n->names[i])));
    }
    for (uint32_t i = 0; n->ops && i + 1 < n->count; i++) {
        buf_printf(out, " %s", ast_op_text(n->ops[i]));
    }
    buf_add_cstr(out, n->constant ? " (prepared)\n" : "\n");
}

/* The plan is a tree, but for the initializers of lazy variables, which are shown at the bind. */
static void explain_node(const struct node *n, unsigned depth, struct buf *out)
{
    if (depth > EXPLAIN_DEPTH_MAX || out->failed) {
        return;
    }
    explain_line(n, depth, out);
    if (strcmp(n->label, "local") == 0 || strcmp(n->label, "const") == 0 ||
        (n->names && n->a && strcmp(n->a->label, "variable") == 0)) {
        return;
    }
    const struct node *children[] = {n->a, n->b, n->c};
    for (size_t i = 0; i < 3; i++) {
        if (children[i]) {
            explain_node(children[i], depth + 1, out);
        }
    }
    for (uint32_t i = 0; n->items && i < n->count; i++) {
        explain_node(n->items[i], depth + 1, out);
    }
}

void policy_program_explain(const struct policy_program *program, struct buf *out)
{
    explain_node(program->root, 0, out);
}
