#include "policy/cel/ast.h"

#include <stdio.h>

#include "policy/cel/env.h"
#include "policy/cel/lex.h"

/* CEL language definition, "Macros". Each comprehension becomes one AST_LOOP node of its own
 * kind: there is no hidden accumulator whose name a rule could collide with. A call that does not
 * fit the macro's form (number of arguments) stays a call. */

static struct local *local_new(struct compile *c, struct str name)
{
    struct local *local = arena_zalloc(c->arena, sizeof *local);
    if (!local) {
        return compile_out_of_memory(c);
    }
    local->name = name;
    local->slot = c->locals_count++;
    return local;
}

/* Does node say ns.name, with ns a plain identifier? */
static bool is_namespaced(const struct ast *call, const char *ns, const char *name)
{
    return call->target && call->target->kind == AST_IDENT && str_is(call->target->name, ns) &&
           str_is(call->name, name);
}

/* cel.iterVar(depth, unique) or cel.index(i) with literal arguments, in the block library. */
static struct str block_name(struct compile *c, const struct ast *call, const char *prefix)
{
    char text[64];
    int64_t numbers[2] = {0, 0};
    for (size_t i = 0; i < call->args_count && i < 2; i++) {
        if (call->args[i]->kind != AST_CONST || call->args[i]->value.kind != POLICY_INT ||
            call->args[i]->value.as.i < 0) {
            compile_fail(c, call->at, "cel.%.*s wants literal numbers", STR_ARG(call->name));
            return STR_NONE;
        }
        numbers[i] = call->args[i]->value.as.i;
    }
    int n = snprintf(text, sizeof text, "@%s:%lld:%lld", prefix, (long long)numbers[0],
                     (long long)numbers[1]);
    char *copy = arena_strndup(c->arena, text, (size_t)n);
    if (!copy) {
        compile_out_of_memory(c);
        return STR_NONE;
    }
    return str_make(copy, (size_t)n);
}

static struct ast *hidden_ident(struct compile *c, const struct ast *call, const char *prefix)
{
    struct ast *node = ast_new(c, AST_IDENT, call->at);
    struct str name = block_name(c, call, prefix);
    if (!node || name.len == 0) {
        return NULL;
    }
    node->name = name;
    node->begin = call->begin;
    node->end = call->end;
    return ast_finish(c, node);
}

static struct local *variable_of(struct compile *c, const struct ast *arg)
{
    if (arg->kind != AST_IDENT || arg->absolute) {
        return compile_fail(c, arg->begin, "a macro's variable must be a plain name");
    }
    return local_new(c, arg->name);
}

struct loop_parts {
    enum loop_kind kind;
    size_t variables; /* 1 or 2, the first arguments */
    int filter;       /* index of the argument, or -1 */
    int body;
};

static struct ast *make_loop(struct compile *c, const struct ast *call, struct loop_parts parts)
{
    struct ast *node = ast_new(c, AST_LOOP, call->at);
    if (!node) {
        return NULL;
    }
    node->op = (uint8_t)parts.kind;
    node->begin = call->begin;
    node->end = call->end;
    node->name = call->name;
    node->target = call->target;
    node->local = variable_of(c, call->args[0]);
    if (!node->local) {
        return NULL;
    }
    if (parts.variables == 2) {
        node->local2 = variable_of(c, call->args[1]);
        if (!node->local2) {
            return NULL;
        }
        if (str_eq(node->local->name, node->local2->name)) {
            return compile_fail(c, call->args[1]->begin, "the two variables need different names");
        }
    }
    node->filter = parts.filter >= 0 ? call->args[parts.filter] : NULL;
    node->body = parts.body >= 0 ? call->args[parts.body] : NULL;
    return ast_finish(c, node);
}

static const struct {
    const char *name;
    uint8_t args;
    uint8_t two_variables;
    uint8_t kind;
    int8_t filter;
    int8_t body;
    uint16_t library; /* 0: always there */
} loop_macros[] = {
    {"all", 2, false, LOOP_ALL, -1, 1, 0},
    {"exists", 2, false, LOOP_EXISTS, -1, 1, 0},
    {"exists_one", 2, false, LOOP_EXISTS_ONE, -1, 1, 0},
    {"existsOne", 2, false, LOOP_EXISTS_ONE, -1, 1, 0},
    {"map", 2, false, LOOP_LIST, -1, 1, 0},
    {"map", 3, false, LOOP_LIST, 1, 2, 0},
    {"filter", 2, false, LOOP_LIST, 1, -1, 0},
    {"all", 3, true, LOOP_ALL, -1, 2, POLICY_LIB_MACROS2},
    {"exists", 3, true, LOOP_EXISTS, -1, 2, POLICY_LIB_MACROS2},
    {"exists_one", 3, true, LOOP_EXISTS_ONE, -1, 2, POLICY_LIB_MACROS2},
    {"existsOne", 3, true, LOOP_EXISTS_ONE, -1, 2, POLICY_LIB_MACROS2},
    {"transformList", 3, true, LOOP_LIST, -1, 2, POLICY_LIB_MACROS2},
    {"transformList", 4, true, LOOP_LIST, 2, 3, POLICY_LIB_MACROS2},
    {"transformMap", 3, true, LOOP_MAP, -1, 2, POLICY_LIB_MACROS2},
    {"transformMap", 4, true, LOOP_MAP, 2, 3, POLICY_LIB_MACROS2},
    {"transformMapEntry", 3, true, LOOP_MAP_ENTRY, -1, 2, POLICY_LIB_MACROS2},
    {"transformMapEntry", 4, true, LOOP_MAP_ENTRY, 2, 3, POLICY_LIB_MACROS2},
    {"sortBy", 2, false, LOOP_SORT_BY, -1, 1, POLICY_LIB_LISTS},
};

static struct ast *expand_loop(struct compile *c, struct ast *call)
{
    for (size_t i = 0; i < sizeof loop_macros / sizeof loop_macros[0]; i++) {
        if (call->args_count == loop_macros[i].args && str_is(call->name, loop_macros[i].name) &&
            (loop_macros[i].library == 0 || env_has(c->env, loop_macros[i].library))) {
            return make_loop(c, call,
                             (struct loop_parts){(enum loop_kind)loop_macros[i].kind,
                                                 loop_macros[i].two_variables ? 2 : 1,
                                                 loop_macros[i].filter, loop_macros[i].body});
        }
    }
    return call;
}

static struct ast *expand_has(struct compile *c, struct ast *call)
{
    struct ast *arg = call->args[0];
    if (arg->kind != AST_SELECT || arg->optional || arg->presence) {
        return compile_fail(c, arg->begin, "has() wants a selection such as has(a.b)");
    }
    arg->presence = true;
    arg->begin = call->begin;
    arg->end = call->end;
    return arg;
}

static struct ast *make_bind(struct compile *c, enum ast_kind kind, const struct ast *call,
                             struct local *local, struct ast *init, struct ast *body)
{
    struct ast *node = ast_new(c, kind, call->at);
    if (!node || !local) {
        return NULL;
    }
    local->lazy = kind == AST_BIND;
    node->name = call->name;
    node->begin = call->begin;
    node->end = call->end;
    node->local = local;
    node->target = init;
    node->body = body;
    return ast_finish(c, node);
}

/* cel.block([e0, e1], body): nested lazy binds of hidden names. */
static struct ast *expand_block(struct compile *c, struct ast *call)
{
    struct ast *list = call->args[0];
    struct ast *body = call->args[1];
    if (list->kind != AST_LIST) {
        return compile_fail(c, list->begin, "cel.block() wants a list literal");
    }
    for (size_t i = list->args_count; i-- > 0;) {
        char *name = arena_printf(c->arena, "@index:%zu:0", i);
        if (!name) {
            return compile_out_of_memory(c);
        }
        body = make_bind(c, AST_BIND, call, local_new(c, str_from(name)), list->args[i], body);
        if (!body) {
            return NULL;
        }
    }
    return body;
}

static struct ast *expand_cel(struct compile *c, struct ast *call)
{
    if (is_namespaced(call, "cel", "bind") && call->args_count == 3 &&
        env_has(c->env, POLICY_LIB_BINDINGS)) {
        struct local *local = variable_of(c, call->args[0]);
        return make_bind(c, AST_BIND, call, local, call->args[1], call->args[2]);
    }
    if (!env_has(c->env, POLICY_LIB_BLOCK)) {
        return call;
    }
    if (is_namespaced(call, "cel", "block") && call->args_count == 2) {
        return expand_block(c, call);
    }
    if (is_namespaced(call, "cel", "index") && call->args_count == 1) {
        return hidden_ident(c, call, "index");
    }
    if (is_namespaced(call, "cel", "iterVar") && call->args_count == 2) {
        return hidden_ident(c, call, "it");
    }
    return call;
}

/* math.greatest(a, b, ...) takes any number of arguments: they become one list. */
static struct ast *expand_extremes(struct compile *c, struct ast *call)
{
    if (call->args_count == 1 && call->args[0]->kind == AST_LIST &&
        call->args[0]->args_count == 0) {
        return compile_fail(c, call->args[0]->begin, "math.%.*s() of no numbers",
                            STR_ARG(call->name));
    }
    if (call->args_count < 2) {
        return call;
    }
    struct ast *list = ast_new(c, AST_LIST, call->at);
    struct ast_vec vec = {0};
    if (!list) {
        return NULL;
    }
    list->begin = call->begin;
    list->end = call->end;
    list->args = call->args;
    list->args_count = call->args_count;
    if (!ast_finish(c, list) || !ast_vec_add(c, &vec, list)) {
        return NULL;
    }
    call->args = vec.items;
    call->args_count = 1;
    return ast_finish(c, call);
}

static struct ast *expand_optional(struct compile *c, struct ast *call)
{
    bool flat = str_is(call->name, "optFlatMap");
    if (call->args_count != 2 || (!flat && !str_is(call->name, "optMap"))) {
        return expand_loop(c, call);
    }
    struct local *local = variable_of(c, call->args[0]);
    struct ast *node = make_bind(c, AST_OPT_MAP, call, local, call->target, call->args[1]);
    if (node) {
        node->flat = flat;
    }
    return node;
}

struct ast *macro_expand(struct compile *c, struct ast *call)
{
    if (env_has(c->env, POLICY_NO_MACROS)) {
        return call;
    }
    if (!call->target) {
        return call->args_count == 1 && str_is(call->name, "has") ? expand_has(c, call) : call;
    }
    if (call->target->kind == AST_IDENT && str_is(call->target->name, "cel")) {
        struct ast *expanded = expand_cel(c, call);
        if (expanded != call) {
            return expanded;
        }
    }
    if (is_namespaced(call, "math", "greatest") || is_namespaced(call, "math", "least")) {
        return expand_extremes(c, call);
    }
    return env_has(c->env, POLICY_LIB_OPTIONALS) ? expand_optional(c, call) : expand_loop(c, call);
}
