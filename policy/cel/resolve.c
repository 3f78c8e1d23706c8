#include "policy/cel/ast.h"

#include "policy/cel/env.h"

/* CEL language definition, "Name resolution": variables of macros first; then, from the
 * innermost namespace of the container outwards, the longest dotted prefix that is declared; the
 * rest of the dotted name selects members. */

enum { NAME_PARTS_MAX = 16, NAME_BYTES_MAX = 1024 };

struct scope {
    const struct scope *outer;
    struct local *local;
};

struct resolver {
    struct compile *c;
    bool strict;
};

static bool resolve(struct resolver *r, struct ast **slot, const struct scope *scope);

static struct local *find_local(const struct scope *scope, struct str name)
{
    for (; scope; scope = scope->outer) {
        if (str_eq(scope->local->name, name)) {
            return scope->local;
        }
    }
    return NULL;
}

/* The IDENT at the root of a chain of plain selections, or NULL. *ret_links: how many. */
static struct ast *root_of_name(struct ast *node, size_t *ret_links)
{
    size_t links = 0;
    while (node->kind == AST_SELECT && !node->optional && !node->presence) {
        node = node->target;
        links++;
    }
    *ret_links = links;
    return node->kind == AST_IDENT ? node : NULL;
}

static bool is_type_name(const struct policy_env *env, struct str name)
{
    static const char *const names[] = {"int",
                                        "uint",
                                        "double",
                                        "bool",
                                        "string",
                                        "bytes",
                                        "list",
                                        "map",
                                        "null_type",
                                        "type",
                                        "google.protobuf.Timestamp",
                                        "google.protobuf.Duration"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (str_is(name, names[i])) {
            return true;
        }
    }
    return (str_is(name, "optional_type") && env_has(env, POLICY_LIB_OPTIONALS)) ||
           ((str_is(name, "net.IP") || str_is(name, "net.CIDR")) &&
            env_has(env, POLICY_LIB_NETWORK));
}

/* The parts of a dotted name from the front, at most NAME_PARTS_MAX, with the nodes they end. */
struct name_parts {
    struct str text[NAME_PARTS_MAX];
    struct ast *node[NAME_PARTS_MAX];
    size_t count;
};

static void collect_parts(struct ast *top, size_t links, struct name_parts *parts)
{
    size_t total = links + 1;
    parts->count = total < NAME_PARTS_MAX ? total : NAME_PARTS_MAX;
    struct ast *node = top;
    for (size_t i = total; i-- > 0; node = node->target) {
        if (i < NAME_PARTS_MAX) {
            parts->text[i] = node->name;
            parts->node[i] = node;
        }
    }
}

/* "container.a.b" into buffer; empty when too long. */
static struct str join_name(struct str ns, const struct name_parts *parts, size_t count,
                            char buffer[NAME_BYTES_MAX])
{
    size_t len = 0;
    for (size_t i = 0; i <= count; i++) {
        struct str part = i == 0 ? ns : parts->text[i - 1];
        if (len + part.len + 1 > NAME_BYTES_MAX) {
            return STR_NONE;
        }
        if (part.len > 0) {
            if (len > 0) {
                buffer[len++] = '.';
            }
            memcpy(buffer + len, part.ptr, part.len);
            len += part.len;
        }
    }
    return str_make(buffer, len);
}

/* Turns the node into the variable or type of that name. */
static bool become(struct resolver *r, struct ast *node, struct str name)
{
    size_t index;
    if (env_find_variable(r->c->env, name, &index)) {
        node->kind = AST_VARIABLE;
        node->variable = index;
        node->name = r->c->env->variables[index].name;
        node->target = NULL;
        return true;
    }
    if (!is_type_name(r->c->env, name)) {
        return false;
    }
    const char *copy = arena_strndup(r->c->arena, name.ptr, name.len);
    if (!copy) {
        compile_out_of_memory(r->c);
        return false;
    }
    node->kind = AST_CONST;
    node->value =
        (struct policy_value){.kind = POLICY_TYPE, .len = (uint32_t)name.len, .as.text = copy};
    node->target = NULL;
    return true;
}

/* Drops the last part of a namespace; false at the root. */
static bool leave_namespace(struct str *ns)
{
    if (ns->len == 0) {
        return false;
    }
    while (ns->len > 0 && ns->ptr[ns->len - 1] != '.') {
        ns->len--;
    }
    if (ns->len > 0) {
        ns->len--;
    }
    return true;
}

static bool find_declared(struct resolver *r, const struct name_parts *parts, bool absolute)
{
    char buffer[NAME_BYTES_MAX];
    struct str ns = absolute ? STR_NONE : r->c->env->container;
    do {
        for (size_t count = parts->count; count > 0; count--) {
            struct str name = join_name(ns, parts, count, buffer);
            if (name.len > 0 && become(r, parts->node[count - 1], name)) {
                return true;
            }
        }
    } while (leave_namespace(&ns));
    return false;
}

static bool resolve_name(struct resolver *r, struct ast *top, struct ast *root, size_t links,
                         const struct scope *scope)
{
    struct local *local = root->absolute ? NULL : find_local(scope, root->name);
    if (local) {
        root->kind = AST_LOCAL;
        root->local = local;
        return true;
    }
    struct name_parts parts;
    collect_parts(top, links, &parts);
    if (find_declared(r, &parts, root->absolute)) {
        return true;
    }
    if (r->c->status) {
        return false;
    }
    if (r->strict) {
        compile_fail(r->c, root->at, "undeclared name '%.*s'", STR_ARG(root->name));
        return false;
    }
    root->kind = AST_UNBOUND;
    return true;
}

static bool find_function(struct resolver *r, struct ast *call, struct str name, bool member)
{
    call->overload = env_find_function(r->c->env, name, member, &call->overload_count);
    return call->overload != NULL;
}

/* Looks a global function up in the container's namespaces. */
static bool find_global(struct resolver *r, struct ast *call, const struct name_parts *parts,
                        bool absolute)
{
    char buffer[NAME_BYTES_MAX];
    struct str ns = absolute ? STR_NONE : r->c->env->container;
    do {
        struct str name = join_name(ns, parts, parts->count, buffer);
        if (name.len > 0 && find_function(r, call, name, false)) {
            call->name = call->overload->name;
            return true;
        }
    } while (leave_namespace(&ns));
    return false;
}

/* math.ceil(x): a dotted name before the parenthesis that is a declared function. */
static bool find_namespaced(struct resolver *r, struct ast *call, const struct scope *scope)
{
    size_t links;
    struct ast *root = root_of_name(call->target, &links);
    if (!root || links + 2 > NAME_PARTS_MAX || (!root->absolute && find_local(scope, root->name))) {
        return false;
    }
    struct name_parts parts;
    collect_parts(call->target, links, &parts);
    parts.text[parts.count++] = call->name;
    if (!find_global(r, call, &parts, root->absolute)) {
        return false;
    }
    call->target = NULL;
    return true;
}

static bool unknown_function(struct resolver *r, struct ast *call)
{
    if (!r->strict) {
        call->kind = AST_UNBOUND;
        return true;
    }
    struct str near = env_nearest_function(r->c->env, call->name);
    size_t ignored;
    if (near.len > 0) {
        compile_fail(r->c, call->at, "unknown function '%.*s': did you mean '%.*s'?",
                     STR_ARG(call->name), STR_ARG(near));
    } else if (env_find_function(r->c->env, call->name, !call->target, &ignored)) {
        compile_fail(r->c, call->at, "'%.*s' is called as %s", STR_ARG(call->name),
                     call->target ? "a function, f(x), not as a method" : "a method, x.f()");
    } else {
        compile_fail(r->c, call->at, "unknown function '%.*s'", STR_ARG(call->name));
    }
    return false;
}

static bool resolve_call(struct resolver *r, struct ast *call, const struct scope *scope)
{
    bool known;
    if (!call->target) {
        struct name_parts parts = {.text = {call->name}, .count = 1};
        known = find_global(r, call, &parts, call->absolute);
    } else {
        known = find_namespaced(r, call, scope) || find_function(r, call, call->name, true);
    }
    if (!known && r->strict && call->target && !unknown_function(r, call)) {
        return false;
    }
    if (call->target && known && !resolve(r, &call->target, scope)) {
        return false;
    }
    for (size_t i = 0; known && i < call->args_count; i++) {
        if (!resolve(r, &call->args[i], scope)) {
            return false;
        }
    }
    return known || unknown_function(r, call);
}

/* Nodes with a variable of their own: the range is outside of its scope. */
static bool resolve_scoped(struct resolver *r, struct ast *node, const struct scope *scope)
{
    struct scope first = {scope, node->local};
    struct scope second = {&first, node->local2};
    const struct scope *inner = node->local2 ? &second : &first;
    return resolve(r, &node->target, scope) &&
           (!node->filter || resolve(r, &node->filter, inner)) &&
           (!node->body || resolve(r, &node->body, inner));
}

static bool resolve_message(struct resolver *r, struct ast *node)
{
    if (r->strict) {
        compile_fail(r->c, node->at, "message types are not supported: use a map");
        return false;
    }
    node->kind = AST_UNBOUND;
    return true;
}

static bool resolve_args(struct resolver *r, struct ast *node, size_t first,
                         const struct scope *scope)
{
    for (size_t i = first; i < node->args_count; i++) {
        if (!resolve(r, &node->args[i], scope)) {
            return false;
        }
    }
    return true;
}

static bool resolve(struct resolver *r, struct ast **slot, const struct scope *scope)
{
    struct ast *node = *slot;
    /* Down the left side of chains by a loop. */
    while (node->kind == AST_SELECT || node->kind == AST_BINARY) {
        size_t links = 0;
        struct ast *root = root_of_name(node, &links);
        if (root) {
            return resolve_name(r, node, root, links, scope);
        }
        if (node->kind == AST_BINARY) {
            if (!resolve_args(r, node, 1, scope)) {
                return false;
            }
            node = node->args[0];
            continue;
        }
        for (links = links ? links : 1; links > 0; links--) {
            node = node->target;
        }
    }
    switch (node->kind) {
    case AST_IDENT:
        return resolve_name(r, node, node, 0, scope);
    case AST_CALL:
        return resolve_call(r, node, scope);
    case AST_LOOP:
    case AST_BIND:
    case AST_OPT_MAP:
        return resolve_scoped(r, node, scope);
    case AST_MESSAGE:
        return resolve_message(r, node);
    case AST_INDEX:
        return resolve(r, &node->target, scope) && resolve_args(r, node, 0, scope);
    default:
        return resolve_args(r, node, 0, scope);
    }
}

bool resolve_names(struct compile *c, struct ast **root, bool strict)
{
    struct resolver r = {c, strict};
    return resolve(&r, root, NULL);
}
