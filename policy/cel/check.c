#include "policy/cel/ast.h"

#include <stdio.h>

#include "policy/cel/env.h"

/* Type inference: CEL language definition, "Type checking" and "Gradual type checking". */

static bool check(struct compile *c, struct ast *node);

static bool set_type(struct compile *c, struct ast *node, const struct type *t)
{
    if (!t || c->types.out_of_memory) {
        compile_out_of_memory(c);
        return false;
    }
    node->type = t;
    return true;
}

static bool set_simple(struct ast *node, enum type_kind kind)
{
    node->type = type_simple(kind);
    return true;
}

/* dyn, and parameters that nothing has fixed yet, which behave as dyn. */
static const struct type *find_or_dyn(const struct type *t)
{
    t = type_find(t);
    return t->kind == TYPE_PARAM ? type_simple(TYPE_DYN) : t;
}

static void print_arguments(struct compile *c, const struct type *const *types, size_t count,
                            bool member, struct buf *out)
{
    size_t first = 0;
    if (member) {
        type_print(type_resolve(c->arena, types[0], true), out);
        buf_add_cstr(out, ".");
        first = 1;
    }
    buf_add_cstr(out, "(");
    for (size_t i = first; i < count; i++) {
        const struct type *t = type_resolve(c->arena, types[i], true);
        buf_add_cstr(out, i > first ? ", " : "");
        if (t) {
            type_print(t, out);
        }
    }
    buf_add_cstr(out, ")");
}

static bool no_overload(struct compile *c, const struct ast *node, const char *name,
                        const struct type *const *types, size_t count)
{
    struct buf b;
    buf_init(&b, 400);
    print_arguments(c, types, count, node->kind == AST_CALL && node->target, &b);
    compile_fail(c, node->at, "'%s' does not take %.*s", name, (int)b.len, (const char *)b.ptr);
    buf_free(&b);
    return false;
}

static bool expect(struct compile *c, const struct ast *node, const struct type *wanted,
                   const char *where)
{
    if (type_assign(&c->types, wanted, node->type)) {
        return true;
    }
    struct buf b;
    buf_init(&b, 400);
    type_print(wanted, &b);
    buf_add_cstr(&b, ", not ");
    const struct type *t = type_resolve(c->arena, node->type, true);
    if (t) {
        type_print(t, &b);
    }
    compile_fail(c, node->begin, "%s must be %.*s", where, (int)b.len, (const char *)b.ptr);
    buf_free(&b);
    return false;
}

struct candidates {
    const struct overload *first;
    size_t count;
};

/* The common result of all overloads that fit, dyn when they differ, NULL when none fits. */
static const struct type *choose_overloads(struct compile *c, struct candidates candidates,
                                           const struct type *const *types, size_t count)
{
    const struct type *result = NULL;
    for (size_t i = 0; i < candidates.count; i++) {
        const struct overload *o = &candidates.first[i];
        const struct type *fresh[26] = {NULL};
        const struct type *params[FUNCTION_ARGS_MAX];
        if (o->args_count != count) {
            continue;
        }
        for (size_t k = 0; k < count; k++) {
            params[k] = type_instantiate(c->arena, o->params[k], fresh);
            if (!params[k]) {
                return compile_out_of_memory(c);
            }
        }
        if (!type_assign_all(&c->types, params, types, count)) {
            continue;
        }
        const struct type *t = type_instantiate(c->arena, o->result, fresh);
        t = t ? type_resolve(c->arena, t, false) : NULL;
        if (!t) {
            return compile_out_of_memory(c);
        }
        if (!result) {
            result = t;
        } else if (!type_equal(result, t)) {
            result = type_simple(TYPE_DYN);
        }
    }
    return result;
}

static bool check_operator(struct compile *c, struct ast *node, const char *function,
                           const char *text, const struct type *const *types, size_t count)
{
    struct candidates candidates;
    candidates.first = env_find_function(c->env, str_from(function), false, &candidates.count);
    const struct type *t = candidates.first ? choose_overloads(c, candidates, types, count) : NULL;
    if (!t) {
        return no_overload(c, node, text, types, count);
    }
    return set_type(c, node, t);
}

static bool check_call(struct compile *c, struct ast *node)
{
    const struct type *types[FUNCTION_ARGS_MAX];
    size_t count = 0;
    if (node->target) {
        if (!check(c, node->target)) {
            return false;
        }
        types[count++] = node->target->type;
    }
    for (size_t i = 0; i < node->args_count; i++) {
        if (!check(c, node->args[i])) {
            return false;
        }
        if (count == FUNCTION_ARGS_MAX) {
            compile_fail(c, node->at, "too many arguments for '%.*s'", STR_ARG(node->name));
            return false;
        }
        types[count++] = node->args[i]->type;
    }
    struct candidates candidates = {node->overload, node->overload_count};
    const struct type *t = choose_overloads(c, candidates, types, count);
    if (t) {
        return set_type(c, node, t);
    }
    char name[80];
    (void)snprintf(name, sizeof name, "%.*s", STR_ARG(node->name));
    return no_overload(c, node, name, types, count);
}

/* The type of target.name or target[key], looking through one optional. */
static const struct type *member_type(struct compile *c, const struct ast *node,
                                      const struct type *target)
{
    target = find_or_dyn(target);
    if (target->kind == TYPE_DYN) {
        return target;
    }
    if (node->kind == AST_SELECT && target->kind == TYPE_MAP) {
        const struct type *key = type_simple(TYPE_STRING);
        return type_assign(&c->types, target->params[0], key) ? target->params[1] : NULL;
    }
    if (node->kind != AST_INDEX) {
        return NULL;
    }
    if (target->kind == TYPE_MAP) {
        return type_assign(&c->types, target->params[0], node->args[0]->type) ? target->params[1]
                                                                              : NULL;
    }
    if (target->kind == TYPE_LIST) {
        return type_assign(&c->types, type_simple(TYPE_INT), node->args[0]->type)
                   ? target->params[0]
                   : NULL;
    }
    return NULL;
}

static bool member_fails(struct compile *c, const struct ast *node, const struct type *target)
{
    struct buf b;
    buf_init(&b, 400);
    const struct type *t = type_resolve(c->arena, target, true);
    if (t) {
        type_print(t, &b);
    }
    if (node->kind == AST_SELECT) {
        compile_fail(c, node->at, "a value of type %.*s has no member '%.*s'", (int)b.len,
                     (const char *)b.ptr, STR_ARG(node->name));
    } else {
        buf_add_cstr(&b, "[");
        const struct type *key = type_resolve(c->arena, node->args[0]->type, true);
        if (key) {
            type_print(key, &b);
        }
        compile_fail(c, node->at, "no such index: %.*s]", (int)b.len, (const char *)b.ptr);
    }
    buf_free(&b);
    return false;
}

/* SELECT or INDEX whose target (and key) are checked. */
static bool check_member(struct compile *c, struct ast *node)
{
    const struct type *target = find_or_dyn(node->target->type);
    bool through_optional = type_is_optional(target);
    const struct type *t = member_type(c, node, through_optional ? target->params[0] : target);
    if (!t) {
        return c->status ? false : member_fails(c, node, target);
    }
    if (node->presence) {
        return set_simple(node, TYPE_BOOL);
    }
    if (node->optional || through_optional) {
        const struct type *inner = type_find(t);
        return set_type(c, node, type_is_optional(inner) ? inner : type_optional(c->arena, t));
    }
    return set_type(c, node, t);
}

/* One link of a left-leaning chain, everything to its left being checked. */
static bool check_link(struct compile *c, struct ast *node)
{
    if (node->kind == AST_SELECT) {
        return check_member(c, node);
    }
    if (!check(c, node->args[1])) {
        return false;
    }
    const struct type *types[2] = {node->args[0]->type, node->args[1]->type};
    return check_operator(c, node, ast_op_function(node->op), ast_op_text(node->op), types, 2);
}

static struct ast *link_below(const struct ast *node)
{
    return node->kind == AST_SELECT ? node->target : node->args[0];
}

/* Walks a chain of SELECT or BINARY nodes from its foot up, without recursion. */
static bool check_chain(struct compile *c, struct ast *top)
{
    size_t count = 0;
    struct ast *foot = top;
    for (; foot->kind == top->kind; foot = link_below(foot)) {
        count++;
    }
    if (!check(c, foot)) {
        return false;
    }
    struct ast **links = arena_calloc(c->arena, count, sizeof *links);
    if (!links) {
        compile_out_of_memory(c);
        return false;
    }
    struct ast *node = top;
    for (size_t i = count; i-- > 0; node = link_below(node)) {
        links[i] = node;
    }
    for (size_t i = 0; i < count; i++) {
        if (!check_link(c, links[i])) {
            return false;
        }
    }
    return true;
}

/* The type inside the optional that a '?' element must be. */
static const struct type *element_type(struct compile *c, const struct ast *node, size_t index)
{
    const struct ast *arg = node->args[index];
    size_t marked = node->kind == AST_MAP ? index & ~(size_t)1 : index;
    bool is_value = node->kind != AST_MAP || index % 2 == 1;
    if (!node->optional_args || !node->optional_args[marked] || !is_value) {
        return arg->type;
    }
    const struct type *t = find_or_dyn(arg->type);
    if (t->kind == TYPE_DYN) {
        return t;
    }
    if (!type_is_optional(t)) {
        compile_fail(c, arg->begin, "what stands behind '?' must be an optional");
        return NULL;
    }
    return t->params[0];
}

static bool check_aggregate(struct compile *c, struct ast *node)
{
    const struct type *keys = NULL;
    const struct type *values = NULL;
    for (size_t i = 0; i < node->args_count; i++) {
        if (!check(c, node->args[i])) {
            return false;
        }
        const struct type *t = element_type(c, node, i);
        if (!t) {
            return false;
        }
        if (node->kind == AST_MAP && i % 2 == 0) {
            keys = type_join(&c->types, keys, t);
        } else {
            values = type_join(&c->types, values, t);
        }
    }
    values = values ? values : type_fresh(c->arena);
    if (node->kind == AST_LIST) {
        return set_type(c, node, type_list(c->arena, values));
    }
    keys = keys ? keys : type_fresh(c->arena);
    return set_type(c, node, type_map(c->arena, keys, values));
}

static bool check_logic(struct compile *c, struct ast *node)
{
    for (size_t i = 0; i < node->args_count; i++) {
        if (!check(c, node->args[i])) {
            return false;
        }
        if (!expect(c, node->args[i], type_simple(TYPE_BOOL),
                    node->op == OP_AND ? "an operand of '&&'" : "an operand of '||'")) {
            return false;
        }
    }
    return set_simple(node, TYPE_BOOL);
}

static bool check_condition(struct compile *c, struct ast *node)
{
    if (!check(c, node->args[0]) || !check(c, node->args[1]) || !check(c, node->args[2])) {
        return false;
    }
    const struct type *types[3] = {node->args[0]->type, node->args[1]->type, node->args[2]->type};
    return check_operator(c, node, "_?_:_", "?:", types, 3);
}

/* What the variables of a comprehension range over. */
static bool bind_range(struct compile *c, struct ast *node)
{
    const struct type *range = find_or_dyn(node->target->type);
    const struct type *dyn = type_simple(TYPE_DYN);
    const struct type *first;
    const struct type *second = dyn;
    if (range->kind == TYPE_LIST) {
        first = node->local2 ? type_simple(TYPE_INT) : range->params[0];
        second = range->params[0];
    } else if (range->kind == TYPE_MAP) {
        first = range->params[0];
        second = range->params[1];
    } else if (range->kind == TYPE_DYN) {
        first = dyn;
    } else {
        return expect(c, node->target, type_list(c->arena, dyn), "what a macro loops over");
    }
    node->local->type = first;
    if (node->local2) {
        node->local2->type = second;
    }
    return true;
}

static const struct type *loop_type(struct compile *c, const struct ast *node)
{
    const struct type *range = find_or_dyn(node->target->type);
    const struct type *key = range->kind == TYPE_MAP    ? range->params[0]
                             : range->kind == TYPE_LIST ? type_simple(TYPE_INT)
                                                        : type_simple(TYPE_DYN);
    switch (node->op) {
    case LOOP_LIST:
        return type_list(c->arena, node->body ? node->body->type : node->local->type);
    case LOOP_MAP:
        return type_map(c->arena, key, node->body->type);
    case LOOP_MAP_ENTRY:
        return find_or_dyn(node->body->type);
    case LOOP_SORT_BY:
        return range;
    default:
        return type_simple(TYPE_BOOL);
    }
}

static bool check_loop(struct compile *c, struct ast *node)
{
    const struct type *bool_type = type_simple(TYPE_BOOL);
    const struct type *dyn = type_simple(TYPE_DYN);
    if (!check(c, node->target) || !bind_range(c, node)) {
        return false;
    }
    if (node->filter &&
        (!check(c, node->filter) || !expect(c, node->filter, bool_type, "a macro's filter"))) {
        return false;
    }
    if (node->body && !check(c, node->body)) {
        return false;
    }
    if (node->op <= LOOP_EXISTS_ONE && !expect(c, node->body, bool_type, "a macro's predicate")) {
        return false;
    }
    if (node->op == LOOP_MAP_ENTRY &&
        !expect(c, node->body, type_map(c->arena, dyn, dyn), "the entry of transformMapEntry()")) {
        return false;
    }
    if (node->op == LOOP_SORT_BY &&
        !expect(c, node->target, type_list(c->arena, dyn), "what sortBy() sorts")) {
        return false;
    }
    return set_type(c, node, loop_type(c, node));
}

static bool check_bind(struct compile *c, struct ast *node)
{
    if (!check(c, node->target)) {
        return false;
    }
    node->local->type = node->target->type;
    return check(c, node->body) && set_type(c, node, node->body->type);
}

static bool check_opt_map(struct compile *c, struct ast *node)
{
    if (!check(c, node->target)) {
        return false;
    }
    const struct type *t = find_or_dyn(node->target->type);
    const struct type *dyn = type_simple(TYPE_DYN);
    if (t->kind != TYPE_DYN && !type_is_optional(t)) {
        return expect(c, node->target, type_optional(c->arena, dyn), "what optMap() maps");
    }
    node->local->type = t->kind == TYPE_DYN ? t : t->params[0];
    if (!check(c, node->body)) {
        return false;
    }
    if (!node->flat) {
        return set_type(c, node, type_optional(c->arena, node->body->type));
    }
    return expect(c, node->body, type_optional(c->arena, dyn), "what optFlatMap() gives") &&
           set_type(c, node, find_or_dyn(node->body->type));
}

static bool check_const(struct compile *c, struct ast *node)
{
    static const uint8_t types[] = {
        [POLICY_NULL] = TYPE_NULL,   [POLICY_BOOL] = TYPE_BOOL,     [POLICY_INT] = TYPE_INT,
        [POLICY_UINT] = TYPE_UINT,   [POLICY_DOUBLE] = TYPE_DOUBLE, [POLICY_STRING] = TYPE_STRING,
        [POLICY_BYTES] = TYPE_BYTES,
    };
    if (node->value.kind == POLICY_TYPE) {
        return set_type(c, node, type_type(c->arena, type_simple(TYPE_DYN)));
    }
    return set_simple(node, (enum type_kind)types[node->value.kind]);
}

static bool check(struct compile *c, struct ast *node)
{
    const struct type *operand;
    switch (node->kind) {
    case AST_CONST:
        return check_const(c, node);
    case AST_LOCAL:
        return set_type(c, node, node->local->type);
    case AST_VARIABLE:
        return set_type(c, node, c->env->variables[node->variable].type);
    case AST_SELECT:
    case AST_BINARY:
        return check_chain(c, node);
    case AST_INDEX:
        return check(c, node->target) && check(c, node->args[0]) && check_member(c, node);
    case AST_CALL:
        return check_call(c, node);
    case AST_LIST:
    case AST_MAP:
        return check_aggregate(c, node);
    case AST_UNARY:
        if (!check(c, node->args[0])) {
            return false;
        }
        operand = node->args[0]->type;
        return check_operator(c, node, ast_op_function(node->op), ast_op_text(node->op), &operand,
                              1);
    case AST_LOGIC:
        return check_logic(c, node);
    case AST_CONDITION:
        return check_condition(c, node);
    case AST_LOOP:
        return check_loop(c, node);
    case AST_BIND:
        return check_bind(c, node);
    case AST_OPT_MAP:
        return check_opt_map(c, node);
    default:
        compile_fail(c, node->at, "this is no expression");
        return false;
    }
}

bool check_types(struct compile *c, struct ast *root)
{
    return check(c, root);
}
