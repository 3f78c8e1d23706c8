#include "policy/decide/lint_expression.h"

#include <stdarg.h>
#include <stdio.h>

#include "policy/base/suggest.h"
#include "policy/cel/function.h"
#include "policy/cel/value.h"

enum { REPORT_MAX_BYTES = 600 };

/* How an absent member at the end of a path would be read. */
enum use {
    USE_HARMLESS, /* absent gives the same answer as false, 0 or "" would */
    USE_MATTERS,
};

struct walk {
    struct lint_run *run;
    bool is_negated; /* inside an odd number of `!` */
};

static struct lint_seen visit(struct walk w, const struct ast *node, enum use use);

static void use_attr(struct lint_run *run, struct str name);

/* Visits what is used as it is; with `attrs` that uses each of them. */
static struct lint_seen visit_whole(struct walk w, const struct ast *node, enum use use)
{
    struct lint_seen seen = visit(w, node, use);
    if (seen.path && strcmp(seen.path, "attrs") == 0) {
        use_attr(w.run, STR_NONE);
    }
    return seen;
}

static struct lint_seen nothing(uint8_t kind)
{
    return (struct lint_seen){.shape = {.kind = POLICY_SHAPE_ANY}, .kind = kind};
}

void lint_report(struct lint_run *run, enum policy_finding_code code, const char *remedy,
                 const char *format, ...)
{
    char text[REPORT_MAX_BYTES];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap); /* cut when it is too long */
    va_end(ap);
    if (run->found++ < POLICY_LINT_FINDINGS_MAX) {
        struct policy_finding finding = {.code = code,
                                         .policy = run->policy,
                                         .place = run->place,
                                         .text = text,
                                         .remedy = remedy};
        run->lint->found(run->lint->arg, &finding);
    }
}

void lint_point(struct lint_run *run, const struct ast *node)
{
    run->place.has_range = true;
    run->place.begin = node->begin;
    run->place.end = node->end;
}

struct ast *lint_parse(struct lint_run *run, struct str text)
{
    struct error ignored = {0};
    struct compile c = {.env = run->lint->env,
                        .arena = run->arena,
                        .err = &ignored,
                        .types = {.arena = run->arena}};
    if (text.len == 0 || text.len > POLICY_EXPRESSION_MAX_BYTES) {
        return NULL;
    }
    const char *copy = arena_strndup(run->arena, text.ptr, text.len);
    if (!copy) {
        return NULL;
    }
    c.text = str_make(copy, text.len);
    struct ast *root = parse_expression(&c);
    return root && resolve_names(&c, &root, true) ? root : NULL;
}

static bool was_reported(const struct lint_run *run, const char *path)
{
    for (size_t i = 0; i < run->reported_count; i++) {
        if (strcmp(run->reported[i], path) == 0) {
            return true;
        }
    }
    return false;
}

static void remember_report(struct lint_run *run, const char *path)
{
    if (run->reported_count < LINT_REPORTED_MAX) {
        run->reported[run->reported_count++] = path;
    }
}

/* A member of that name one level below a sibling: "ctx.session.status.ext" for
 * "ctx.session.ext". NULL: there is none. */
static const char *find_below(struct lint_run *run, const struct policy_shape *object,
                              const char *path, struct str name)
{
    const char *sibling;
    for (size_t i = 0; (sibling = object->ops->member_name(object, i)); i++) {
        struct policy_shape below;
        struct policy_shape found;
        if (object->ops->member(object, str_from(sibling), run->arena, &below) &&
            below.kind == POLICY_SHAPE_OBJECT &&
            below.ops->member(&below, name, run->arena, &found)) {
            return arena_printf(run->arena, "%s.%s.%.*s", path, sibling, STR_ARG(name));
        }
    }
    return NULL;
}

static void report_unknown(struct lint_run *run, const struct ast *node,
                           const struct lint_seen *target, struct str name)
{
    const struct policy_shape *object = &target->shape;
    bool is_attr = strncmp(target->path, "attrs", 5) == 0;
    struct suggest s = suggest_for(name);
    const char *candidate;
    for (size_t i = 0; (candidate = object->ops->member_name(object, i)); i++) {
        suggest_offer(&s, candidate);
    }
    const char *better = s.best ? arena_printf(run->arena, "%s.%s", target->path, s.best)
                                : find_below(run, object, target->path, name);
    const char *remedy = better ? arena_printf(run->arena, "did you mean %s?", better)
                         : is_attr
                             ? "add it to spec.attrs"
                             : arena_printf(run->arena, "%s has no such member", target->path);
    lint_point(run, node);
    lint_report(run, is_attr ? POLICY_FINDING_ATTR_UNKNOWN : POLICY_FINDING_MEMBER_UNKNOWN,
                remedy ? remedy : "", "%s.%.*s does not exist", target->path, STR_ARG(name));
}

static void use_attr(struct lint_run *run, struct str name)
{
    for (size_t i = 0; i < run->attr_count; i++) {
        if (name.len == 0 || str_eq(run->attr_names[i], name)) {
            run->attr_used[i] = true;
        }
    }
}

static struct lint_seen seen_part(struct policy_shape shape, const char *path)
{
    return (struct lint_seen){.shape = shape, .path = path, .kind = lint_kind_of_shape(&shape)};
}

/* Tells that a part of the input may be absent, when that changes what the rule does. */
static void check_missing(struct walk w, const struct ast *node, struct lint_seen *seen,
                          enum use use)
{
    struct lint_run *run = w.run;
    const struct policy_shape *shape = &seen->shape;
    bool matters = !shape->zero_is_absent || use == USE_MATTERS || w.is_negated;
    if (run->missing == LINT_MISSING_HARMLESS || !shape->may_be_absent || !matters ||
        lint_is_guarded(run, seen->path) || was_reported(run, seen->path)) {
        return;
    }
    seen->is_reported = true;
    remember_report(run, seen->path);
    lint_point(run, node);
    if (run->missing == LINT_MISSING_DENY) {
        lint_report(run, POLICY_FINDING_DENY_ON_MISSING,
                    arena_printf(run->arena,
                                 "say what absence means: has(%s) && ... or !has(%s) || ...",
                                 seen->path, seen->path),
                    "%s may be absent, and then this DENY does not apply", seen->path);
    } else {
        lint_report(run, POLICY_FINDING_ALLOW_ON_MISSING,
                    arena_printf(run->arena, "require it in an `all`: has(%s)", seen->path),
                    "%s may be absent, and then this negated condition of an ALLOW matches",
                    seen->path);
    }
}

/* The member `name` of what `target` is. */
static struct lint_seen select_member(struct walk w, const struct ast *node,
                                      const struct lint_seen *target, struct str name)
{
    struct policy_shape shape = {.kind = POLICY_SHAPE_ANY};
    const char *path = lint_join_path(w.run, target->path, name);
    if (!path) {
        return nothing(KIND_ANY);
    }
    if (strcmp(target->path, "attrs") == 0) {
        use_attr(w.run, name);
    }
    if (target->shape.kind == POLICY_SHAPE_MAP) {
        target->shape.ops->element(&target->shape, w.run->arena, &shape);
        shape.may_be_absent = true;
        shape.zero_is_absent = shape.kind != POLICY_SHAPE_OBJECT && shape.kind != POLICY_SHAPE_ANY;
    } else if (target->shape.kind == POLICY_SHAPE_OBJECT) {
        if (!target->shape.ops->member(&target->shape, name, w.run->arena, &shape)) {
            report_unknown(w.run, node, target, name);
            return nothing(KIND_ANY);
        }
        if (shape.is_never && !was_reported(w.run, path)) {
            remember_report(w.run, path);
            lint_point(w.run, node);
            lint_report(w.run, POLICY_FINDING_MEMBER_NEVER, "",
                        "%s belongs to Octelium and is never there in this server", path);
        }
    } else if (target->shape.kind != POLICY_SHAPE_ANY) {
        lint_point(w.run, node);
        lint_report(w.run, POLICY_FINDING_NEVER_TRUE, "", "%s is %s and has no members",
                    target->path, policy_shape_kind_name(target->shape.kind));
        return nothing(KIND_ANY);
    }
    struct lint_seen seen = seen_part(shape, path);
    seen.is_reported = target->is_reported;
    return seen;
}

/* has(a.b.c): reading a.b may fail too, which counts as "no". */
static struct lint_seen visit_presence(struct walk w, const struct ast *node)
{
    enum lint_missing before = w.run->missing;
    if (!w.is_negated) {
        w.run->missing = LINT_MISSING_HARMLESS;
    }
    struct lint_seen target = visit(w, node->target, USE_HARMLESS);
    if (target.path) {
        (void)select_member(w, node, &target, node->name);
    }
    w.run->missing = before;
    return nothing(POLICY_BOOL);
}

/* a[0].b != c: what b is there for, a[0] is too. */
static enum use use_of_target(const struct ast *target, enum use use)
{
    while (target->kind == AST_SELECT && !target->presence) {
        target = target->target;
    }
    bool is_item = target->kind == AST_INDEX && target->args[0]->kind == AST_CONST &&
                   target->args[0]->value.kind == POLICY_INT;
    return is_item ? use : USE_HARMLESS;
}

static struct lint_seen visit_select(struct walk w, const struct ast *node, enum use use)
{
    if (node->presence) {
        return visit_presence(w, node);
    }
    struct lint_seen target = visit(w, node->target, use_of_target(node->target, use));
    if (!target.path || node->optional) {
        return nothing(KIND_ANY);
    }
    struct lint_seen seen = select_member(w, node, &target, node->name);
    if (seen.path && !seen.is_reported) {
        check_missing(w, node, &seen, use);
    }
    return seen;
}

static struct lint_seen visit_index(struct walk w, const struct ast *node, enum use use)
{
    struct lint_seen target = visit(w, node->target, USE_HARMLESS);
    const struct ast *key = node->args[0];
    (void)visit(w, key, USE_MATTERS);
    bool is_number = key->kind == AST_CONST && key->value.kind == POLICY_INT;
    if (is_number && !node->optional && (use == USE_MATTERS || w.is_negated)) {
        lint_bounds(w.run, node, target.path);
    }
    if (!target.path || node->optional) {
        return nothing(KIND_ANY);
    }
    if (key->kind == AST_CONST && key->value.kind == POLICY_STRING) {
        struct lint_seen seen = select_member(w, node, &target, policy_value_str(key->value));
        if (seen.path && !seen.is_reported) {
            check_missing(w, node, &seen, use);
        }
        return seen;
    }
    if (strcmp(target.path, "attrs") == 0) {
        use_attr(w.run, STR_NONE);
    }
    struct policy_shape shape = {.kind = POLICY_SHAPE_ANY};
    if (target.shape.kind == POLICY_SHAPE_LIST || target.shape.kind == POLICY_SHAPE_MAP) {
        target.shape.ops->element(&target.shape, w.run->arena, &shape);
    }
    shape.may_be_absent = false;
    return seen_part(shape, arena_printf(w.run->arena, "%s[...]", target.path));
}

static void add_local(struct lint_run *run, const struct local *local, struct policy_shape shape,
                      const char *path)
{
    if (local && run->local_count < LINT_LOCALS_MAX) {
        run->locals[run->local_count++] = (struct lint_local){local, shape, path};
    }
}

static void add_loop_locals(struct lint_run *run, const struct ast *node,
                            const struct lint_seen *range)
{
    bool is_list = range->shape.kind == POLICY_SHAPE_LIST;
    bool is_map = range->shape.kind == POLICY_SHAPE_MAP;
    struct policy_shape element = {.kind = POLICY_SHAPE_ANY};
    struct policy_shape key = {.kind = is_list  ? POLICY_SHAPE_INT
                                       : is_map ? POLICY_SHAPE_STRING
                                                : POLICY_SHAPE_ANY};
    if (is_list || is_map) {
        range->shape.ops->element(&range->shape, run->arena, &element);
    }
    element.may_be_absent = false;
    const char *path = arena_printf(run->arena, "%.*s", STR_ARG(node->local->name));
    if (node->local2) {
        add_local(run, node->local, key, NULL);
        add_local(run, node->local2, element,
                  arena_printf(run->arena, "%.*s", STR_ARG(node->local2->name)));
    } else if (is_list) {
        add_local(run, node->local, element, path);
    } else {
        add_local(run, node->local, key, NULL);
    }
}

static struct lint_seen visit_loop(struct walk w, const struct ast *node)
{
    size_t locals = w.run->local_count;
    enum use use = node->op == LOOP_ALL ? USE_MATTERS : USE_HARMLESS;
    struct lint_seen range = visit_whole(w, node->target, use);
    add_loop_locals(w.run, node, &range);
    if (node->filter) {
        (void)visit(w, node->filter, USE_HARMLESS);
    }
    if (node->body) {
        (void)visit(w, node->body, USE_HARMLESS);
    }
    w.run->local_count = locals;
    switch ((enum loop_kind)node->op) {
    case LOOP_ALL:
    case LOOP_EXISTS:
    case LOOP_EXISTS_ONE:
        return nothing(POLICY_BOOL);
    case LOOP_LIST:
    case LOOP_SORT_BY:
        return nothing(POLICY_LIST);
    case LOOP_MAP:
    case LOOP_MAP_ENTRY:
        return nothing(POLICY_MAP);
    }
    return nothing(KIND_ANY);
}

static struct lint_seen visit_bind(struct walk w, const struct ast *node)
{
    size_t locals = w.run->local_count;
    struct lint_seen value = visit(w, node->target, USE_HARMLESS);
    bool is_bind = node->kind == AST_BIND;
    add_local(w.run, node->local,
              is_bind ? value.shape : (struct policy_shape){.kind = POLICY_SHAPE_ANY},
              is_bind ? value.path : NULL);
    struct lint_seen body = visit(w, node->body, USE_HARMLESS);
    w.run->local_count = locals;
    return is_bind ? body : nothing(POLICY_OPTIONAL);
}

/* Each operand may rely on what the others say, but not on itself. */
static void collect_from_others(struct lint_run *run, const struct ast *node, size_t self)
{
    for (size_t i = 0; i < node->args_count && i < LINT_GUARDS_MAX; i++) {
        if (i != self) {
            lint_collect_guards(run, node->args[i], node->op == OP_AND);
        }
    }
}

static struct lint_seen visit_logic(struct walk w, const struct ast *node)
{
    size_t guards = w.run->guard_count;
    for (size_t i = 0; i < node->args_count; i++) {
        collect_from_others(w.run, node, i);
        (void)visit(w, node->args[i], USE_HARMLESS);
        w.run->guard_count = guards;
    }
    return nothing(POLICY_BOOL);
}

static struct lint_seen visit_condition(struct walk w, const struct ast *node)
{
    size_t guards = w.run->guard_count;
    (void)visit(w, node->args[0], USE_HARMLESS);
    lint_collect_guards(w.run, node->args[0], true);
    struct lint_seen yes = visit(w, node->args[1], USE_HARMLESS);
    w.run->guard_count = guards;
    lint_collect_guards(w.run, node->args[0], false);
    struct lint_seen no = visit(w, node->args[2], USE_HARMLESS);
    w.run->guard_count = guards;
    return nothing(yes.kind == no.kind ? yes.kind : KIND_ANY);
}

static struct lint_seen visit_not(struct walk w, const struct ast *node)
{
    struct walk inner = {w.run, !w.is_negated};
    enum lint_missing before = w.run->missing;
    const struct ast *arg = node->args[0];
    bool is_path = arg->kind == AST_SELECT && !arg->presence;
    if (is_path) {
        w.run->missing = LINT_MISSING_HARMLESS; /* what is told below says it better */
    }
    struct lint_seen seen = visit(inner, arg, USE_HARMLESS);
    w.run->missing = before;
    if (is_path && seen.path && seen.shape.kind == POLICY_SHAPE_BOOL && seen.shape.zero_is_absent &&
        !lint_is_guarded(w.run, seen.path)) {
        lint_point(w.run, node);
        lint_report(w.run, POLICY_FINDING_ZERO_ABSENT,
                    arena_printf(w.run->arena, "write !has(%s)", seen.path),
                    "%s is absent when it is false, so that !%s never gives true", seen.path,
                    seen.path);
    }
    return nothing(POLICY_BOOL);
}

/* Would false, 0 or "" on this side make the comparison true? */
static enum use use_in(const struct ast *node, size_t side)
{
    const struct ast *other = node->args[1 - side];
    switch (node->op) {
    case OP_EQ:
        return other->kind == AST_CONST ? USE_HARMLESS : USE_MATTERS;
    case OP_NE:
        return USE_MATTERS;
    case OP_LT:
    case OP_LE:
        return side == 0 ? USE_MATTERS : USE_HARMLESS;
    case OP_GT:
    case OP_GE:
        return side == 1 ? USE_MATTERS : USE_HARMLESS;
    case OP_IN:
        return USE_HARMLESS;
    default:
        return USE_MATTERS;
    }
}

static struct lint_seen visit_binary(struct walk w, const struct ast *node)
{
    struct lint_seen left = visit_whole(w, node->args[0], use_in(node, 0));
    struct lint_seen right = visit_whole(w, node->args[1], use_in(node, 1));
    switch (node->op) {
    case OP_EQ:
    case OP_NE:
    case OP_LT:
    case OP_LE:
    case OP_GT:
    case OP_GE:
    case OP_IN:
        lint_comparison(w.run, node, &left, &right);
        return nothing(POLICY_BOOL);
    default:
        lint_arithmetic(w.run, node, &left, &right);
        return nothing(left.kind == right.kind ? left.kind : KIND_ANY);
    }
}

static struct lint_seen visit_call(struct walk w, const struct ast *node, enum use use)
{
    struct lint_seen target = nothing(KIND_ANY);
    if (node->target) {
        target = visit_whole(w, node->target, use);
    }
    for (size_t i = 0; i < node->args_count; i++) {
        (void)visit_whole(w, node->args[i], use);
    }
    if (node->target) {
        lint_call(w.run, node, &target);
    }
    bool is_cut = str_is(node->name, "substring") || str_is(node->name, "charAt") ||
                  str_is(node->name, "slice");
    if (is_cut && node->target && (use == USE_MATTERS || w.is_negated)) {
        lint_bounds(w.run, node, target.path);
    }
    w.run->is_variable |= str_is(node->name, "now");
    return nothing(lint_kind_of_call(node));
}

static struct lint_seen visit_variable(struct walk w, const struct ast *node)
{
    struct lint_run *run = w.run;
    run->is_variable = true;
    if (node->kind == AST_LOCAL) {
        for (size_t i = run->local_count; i-- > 0;) {
            if (run->locals[i].local == node->local) {
                return seen_part(run->locals[i].shape, run->locals[i].path);
            }
        }
        return nothing(KIND_ANY);
    }
    return node->variable == POLICY_VAR_CTX     ? seen_part(run->lint->ctx, "ctx")
           : node->variable == POLICY_VAR_ATTRS ? seen_part(run->attrs, "attrs")
                                                : nothing(KIND_ANY);
}

static struct lint_seen visit_parts(struct walk w, const struct ast *node, uint8_t kind)
{
    for (size_t i = 0; i < node->args_count; i++) {
        (void)visit_whole(w, node->args[i], USE_MATTERS);
    }
    return nothing(kind);
}

static struct lint_seen visit(struct walk w, const struct ast *node, enum use use)
{
    switch ((enum ast_kind)node->kind) {
    case AST_CONST:
        return nothing(node->value.kind);
    case AST_VARIABLE:
    case AST_LOCAL:
        return visit_variable(w, node);
    case AST_SELECT:
        return visit_select(w, node, use);
    case AST_INDEX:
        return visit_index(w, node, use);
    case AST_CALL:
        return visit_call(w, node, use);
    case AST_LIST:
        return visit_parts(w, node, POLICY_LIST);
    case AST_MAP:
        return visit_parts(w, node, POLICY_MAP);
    case AST_UNARY:
        return node->op == OP_NOT ? visit_not(w, node) : visit(w, node->args[0], USE_MATTERS);
    case AST_BINARY:
        return visit_binary(w, node);
    case AST_LOGIC:
        return visit_logic(w, node);
    case AST_CONDITION:
        return visit_condition(w, node);
    case AST_LOOP:
        return visit_loop(w, node);
    case AST_BIND:
    case AST_OPT_MAP:
        return visit_bind(w, node);
    case AST_IDENT:
    case AST_UNBOUND:
    case AST_MESSAGE:
        break;
    }
    return nothing(KIND_ANY);
}

void lint_expression(struct lint_run *run, const struct ast *root)
{
    run->is_variable = false;
    struct lint_seen seen = visit_whole((struct walk){run, false}, root, USE_HARMLESS);
    if (seen.path && seen.kind != KIND_ANY && seen.kind != POLICY_BOOL) {
        lint_point(run, root);
        lint_report(run, POLICY_FINDING_NOT_BOOL, "compare it with something",
                    "%s is %s, and a condition must give true or false", seen.path,
                    policy_shape_kind_name(seen.shape.kind));
    }
    if (!run->is_variable) {
        lint_point(run, root);
        lint_report(run, POLICY_FINDING_CONSTANT, "use matchAny for what holds always",
                    "the expression gives the same for every request");
    }
    run->place.has_range = false;
}
