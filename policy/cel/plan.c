#include "policy/cel/eval.h"

#include "policy/cel/env.h"
#include "policy/lib/regex.h"
#include "policy/lib/timezone.h"

/* From the annotated tree to the plan that is run: selections become chains of names, pure
 * parts with constant operands are computed now, literal regexes and time zones are prepared. */

enum { CHAIN_LINKS_MIN = 4, SET_ITEMS_MIN = 3, FOLD_COST_MAX = 2000 };

static struct node *plan(struct compile *c, const struct ast *ast);

static struct node *node_new(struct compile *c, const struct ast *ast, node_run *run,
                             const char *label)
{
    struct node *n = arena_zalloc(c->arena, sizeof *n);
    if (!n) {
        return compile_out_of_memory(c);
    }
    n->run = run;
    n->label = label;
    n->at = ast->at;
    n->begin = ast->begin;
    n->end = ast->end;
    n->name = ast->name;
    n->op = ast->op;
    return n;
}

static bool is_const(const struct node *n)
{
    return n->run == run_const;
}

static bool all_const(const struct node *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_const(items[i])) {
            return false;
        }
    }
    return true;
}

/* Runs a node of which all operands are constant. A failure stays for the evaluation to report,
 * since `||` may absorb it. */
static struct node *fold(struct compile *c, struct node *n)
{
    const struct policy_input input = {0};
    struct eval e = {.arena = c->arena,
                     .cost_left = FOLD_COST_MAX,
                     .iterations_left = FOLD_COST_MAX,
                     .input = &input};
    struct policy_value v = n->run(&e, n);
    if (!value_failed(v)) {
        n->run = run_const;
        n->label = "const";
        n->value = v;
    }
    return n;
}

static struct node **plan_items(struct compile *c, struct ast *const *args, size_t count,
                                const struct ast *first)
{
    size_t total = count + (first ? 1 : 0);
    struct node **items = arena_calloc(c->arena, total, sizeof(struct node *));
    if (!items) {
        return compile_out_of_memory(c);
    }
    size_t filled = 0;
    if (first) {
        items[filled] = plan(c, first);
        if (!items[filled++]) {
            return NULL;
        }
    }
    for (size_t i = 0; i < count; i++) {
        items[filled] = plan(c, args[i]);
        if (!items[filled++]) {
            return NULL;
        }
    }
    return items;
}

static struct node *plan_const(struct compile *c, const struct ast *ast)
{
    struct node *n = node_new(c, ast, run_const, "const");
    if (n) {
        n->value = ast->value;
    }
    return n;
}

static struct node *plan_local(struct compile *c, const struct ast *ast)
{
    struct node *n = node_new(c, ast, ast->local->lazy ? run_lazy : run_local, "local");
    if (n) {
        n->slot = ast->local->slot;
        n->a = ast->local->init;
    }
    return n;
}

static struct node *plan_variable(struct compile *c, const struct ast *ast)
{
    struct node *n = node_new(c, ast, run_variable, "variable");
    if (n) {
        n->slot = (uint32_t)ast->variable;
    }
    return n;
}

static bool is_plain_select(const struct ast *ast)
{
    return ast->kind == AST_SELECT && !ast->optional && !ast->presence;
}

/* base.a.b.c as one node with three names. */
static struct node *plan_select_chain(struct compile *c, const struct ast *top)
{
    size_t count = 0;
    const struct ast *base = top;
    for (; is_plain_select(base); base = base->target) {
        count++;
    }
    struct node *n = node_new(c, top, run_select, "select");
    struct policy_value *names = arena_calloc(c->arena, count, sizeof *names);
    struct node *a = plan(c, base);
    if (!n || !names || !a) {
        return c->status ? NULL : compile_out_of_memory(c);
    }
    size_t i = count;
    for (const struct ast *link = top; is_plain_select(link); link = link->target) {
        names[--i] = policy_string(link->name);
    }
    n->names = names;
    n->count = (uint32_t)count;
    n->a = a;
    if (a->run == run_variable) {
        n->run = run_select_variable;
        n->slot = a->slot;
        n->name = a->name;
        if (c->chain_count < COMPILE_CHAINS_MAX) {
            c->chains[c->chain_count++] = n;
        }
    }
    return is_const(a) ? fold(c, n) : n;
}

static struct node *plan_select(struct compile *c, const struct ast *ast)
{
    if (is_plain_select(ast)) {
        return plan_select_chain(c, ast);
    }
    struct node *n = node_new(c, ast, ast->presence ? run_has : run_opt_select,
                              ast->presence ? "has" : "select?");
    struct node *a = n ? plan(c, ast->target) : NULL;
    if (!a) {
        return NULL;
    }
    n->a = a;
    n->value = policy_string(ast->name);
    return is_const(a) ? fold(c, n) : n;
}

static struct node *plan_index(struct compile *c, const struct ast *ast)
{
    struct node *n = node_new(c, ast, ast->optional ? run_opt_index : run_index,
                              ast->optional ? "index?" : "index");
    struct node *a = n ? plan(c, ast->target) : NULL;
    struct node *b = a ? plan(c, ast->args[0]) : NULL;
    if (!b) {
        return NULL;
    }
    n->a = a;
    n->b = b;
    n->name = STR("[]");
    return is_const(a) && is_const(b) ? fold(c, n) : n;
}

/* x in [constants] by look-up, when all of them can be keys. */
static bool make_set(struct compile *c, struct node *n, const struct node *right)
{
    const struct array_list *list = is_const(right) && right->value.kind == POLICY_LIST
                                        ? value_array(right->value.as.list)
                                        : NULL;
    if (!list || list->count < SET_ITEMS_MIN) {
        return true;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (!value_is_key(list->items[i])) {
            return true;
        }
    }
    const struct policy_map *set = value_set_build(c->arena, list->items, list->count);
    if (!set) {
        compile_out_of_memory(c);
        return false;
    }
    n->run = run_in_set;
    n->label = "in set";
    n->value = policy_map(set);
    return true;
}

static struct node *plan_binary_pair(struct compile *c, const struct ast *ast)
{
    bool equality = ast->op == OP_EQ || ast->op == OP_NE;
    struct node *n = node_new(c, ast, equality ? run_equal : run_binary, ast_op_text(ast->op));
    struct node *a = n ? plan(c, ast->args[0]) : NULL;
    struct node *b = a ? plan(c, ast->args[1]) : NULL;
    if (!b) {
        return NULL;
    }
    n->a = a;
    n->b = b;
    n->name = str_from(ast_op_text(ast->op));
    if (is_const(a) && is_const(b)) {
        return fold(c, n);
    }
    if (equality && is_const(b) && b->value.kind == POLICY_STRING) {
        n->run = run_equal_text;
    }
    if (ast->op == OP_IN && is_const(a) && a->value.kind == POLICY_STRING) {
        n->run = run_in_name;
    }
    return ast->op == OP_IN && !make_set(c, n, b) ? NULL : n;
}

/* A long a + b + c ...: operands and operators in arrays. */
static struct node *plan_binary_chain(struct compile *c, const struct ast *top, size_t links)
{
    struct node *n = node_new(c, top, run_chain, "chain");
    struct node **items = arena_calloc(c->arena, links + 1, sizeof(struct node *));
    uint8_t *ops = arena_alloc(c->arena, links);
    if (!n || !items || !ops) {
        return compile_out_of_memory(c);
    }
    const struct ast *link = top;
    for (size_t i = links; i > 0; i--, link = link->args[0]) {
        ops[i - 1] = link->op;
        items[i] = plan(c, link->args[1]);
        if (!items[i]) {
            return NULL;
        }
    }
    items[0] = plan(c, link);
    n->items = (const struct node *const *)items;
    n->ops = ops;
    n->count = (uint32_t)(links + 1);
    n->name = str_from(ast_op_text(top->op));
    return items[0] ? n : NULL;
}

static struct node *plan_binary(struct compile *c, const struct ast *ast)
{
    size_t links = 0;
    for (const struct ast *link = ast; link->kind == AST_BINARY; link = link->args[0]) {
        links++;
    }
    return links >= CHAIN_LINKS_MIN ? plan_binary_chain(c, ast, links) : plan_binary_pair(c, ast);
}

static struct node *plan_unary(struct compile *c, const struct ast *ast)
{
    struct node *n =
        node_new(c, ast, ast->op == OP_NOT ? run_not : run_negate, ast_op_text(ast->op));
    struct node *a = n ? plan(c, ast->args[0]) : NULL;
    if (!a) {
        return NULL;
    }
    n->a = a;
    n->name = str_from(ast_op_text(ast->op));
    return is_const(a) ? fold(c, n) : n;
}

static struct node *plan_logic(struct compile *c, const struct ast *ast)
{
    struct node *n = node_new(c, ast, ast->op == OP_AND ? run_and : run_or, ast_op_text(ast->op));
    struct node **items = n ? plan_items(c, ast->args, ast->args_count, NULL) : NULL;
    if (!items) {
        return NULL;
    }
    n->items = (const struct node *const *)items;
    n->count = (uint32_t)ast->args_count;
    n->name = str_from(ast_op_text(ast->op));
    return all_const(n->items, n->count) ? fold(c, n) : n;
}

static struct node *plan_condition(struct compile *c, const struct ast *ast)
{
    struct node *n = node_new(c, ast, run_condition, "?:");
    struct node **items = n ? plan_items(c, ast->args, 3, NULL) : NULL;
    if (!items) {
        return NULL;
    }
    n->a = items[0];
    n->b = items[1];
    n->c = items[2];
    n->name = STR("?:");
    return is_const(n->a) && is_const(n->b) && is_const(n->c) ? fold(c, n) : n;
}

static struct node *plan_aggregate(struct compile *c, const struct ast *ast)
{
    bool is_list = ast->kind == AST_LIST;
    struct node *n = node_new(c, ast, is_list ? run_list : run_map, is_list ? "list" : "map");
    struct node **items = n ? plan_items(c, ast->args, ast->args_count, NULL) : NULL;
    if (!items) {
        return NULL;
    }
    n->items = (const struct node *const *)items;
    n->count = (uint32_t)ast->args_count;
    n->optional_args = ast->optional_args;
    n->name = is_list ? STR("[...]") : STR("{...}");
    return all_const(n->items, n->count) ? fold(c, n) : n;
}

/* The overloads that take `count` arguments; they stand side by side. */
static void narrow_overloads(struct node *n, const struct ast *ast, size_t count)
{
    const struct overload *o = ast->overload;
    size_t left = ast->overload_count;
    while (left > 0 && o->args_count != count) {
        o++;
        left--;
    }
    n->overloads = o;
    while (n->slot < left && o[n->slot].args_count == count) {
        n->slot++;
    }
}

static bool is_name(const struct node *n, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (str_is(n->name, names[i])) {
            return true;
        }
    }
    return false;
}

/* A literal regex or time zone as second argument is prepared once. */
static bool prepare_constant(struct compile *c, struct node *n)
{
    static const char *const with_regex[] = {"matches", "regex.replace", "regex.extract",
                                             "regex.extractAll"};
    static const char *const with_zone[] = {
        "getFullYear",        "getMonth",          "getDate",    "getDayOfMonth", "getDayOfWeek",
        "getDayOfYear",       "getHours",          "getMinutes", "getSeconds",    "getMilliseconds",
        "time.isWeekdayInTZ", "time.isWeekendInTZ"};
    if (n->count < 2 || !is_const(n->items[1]) || n->items[1]->value.kind != POLICY_STRING) {
        return true;
    }
    struct str text = policy_value_str(n->items[1]->value);
    if (is_name(n, with_regex, sizeof with_regex / sizeof with_regex[0])) {
        const struct regex *regex;
        const char *why;
        if (regex_compile(c->arena, text, &regex, &why)) {
            compile_fail(c, n->items[1]->begin, "bad regular expression: %s", why);
            return false;
        }
        n->constant = regex;
    } else if (is_name(n, with_zone, sizeof with_zone / sizeof with_zone[0])) {
        n->constant = timezone_load(c->arena, text);
    }
    return true;
}

static bool is_pure(const struct node *n)
{
    for (uint32_t i = 0; i < n->slot; i++) {
        if (!n->overloads[i].impl || (n->overloads[i].flags & FUNCTION_IMPURE)) {
            return false;
        }
    }
    return true;
}

/* optional.or() and orValue() evaluate their argument only when they need it. */
static struct node *plan_opt_or(struct compile *c, const struct ast *ast)
{
    struct node *n = node_new(c, ast, run_opt_or, "or");
    struct node *a = n ? plan(c, ast->target) : NULL;
    struct node *b = a ? plan(c, ast->args[0]) : NULL;
    if (!b) {
        return NULL;
    }
    n->a = a;
    n->b = b;
    n->flat = str_is(ast->name, "orValue");
    return n;
}

static struct node *plan_call(struct compile *c, const struct ast *ast)
{
    size_t count = ast->args_count + (ast->target ? 1 : 0);
    if (str_is(ast->name, "dyn") && !ast->target && count == 1) {
        return plan(c, ast->args[0]);
    }
    if (ast->target && count == 2 && (str_is(ast->name, "or") || str_is(ast->name, "orValue"))) {
        return plan_opt_or(c, ast);
    }
    if (count > FUNCTION_ARGS_MAX) {
        return node_new(c, ast, run_unbound, "unbound");
    }
    struct node *n = node_new(c, ast, run_call, "call");
    struct node **items = n ? plan_items(c, ast->args, ast->args_count, ast->target) : NULL;
    if (!items) {
        return NULL;
    }
    n->items = (const struct node *const *)items;
    n->count = (uint32_t)count;
    narrow_overloads(n, ast, count);
    if (!prepare_constant(c, n)) {
        return NULL;
    }
    return all_const(n->items, n->count) && is_pure(n) ? fold(c, n) : n;
}

static struct node *plan_loop(struct compile *c, const struct ast *ast)
{
    static const char *const labels[] = {
        [LOOP_ALL] = "all",         [LOOP_EXISTS] = "exists",
        [LOOP_LIST] = "list loop",  [LOOP_EXISTS_ONE] = "exists_one",
        [LOOP_MAP] = "map loop",    [LOOP_MAP_ENTRY] = "map entry loop",
        [LOOP_SORT_BY] = "sort by",
    };
    struct node *n = node_new(c, ast, run_loop, labels[ast->op]);
    if (!n) {
        return NULL;
    }
    n->slot = ast->local->slot;
    n->two_variables = ast->local2 != NULL;
    n->slot2 = ast->local2 ? ast->local2->slot : 0;
    n->a = plan(c, ast->target);
    n->b = n->a && ast->filter ? plan(c, ast->filter) : NULL;
    n->c = n->a && ast->body ? plan(c, ast->body) : NULL;
    bool complete = n->a && (n->b || !ast->filter) && (n->c || !ast->body);
    return complete ? n : NULL;
}

static struct node *plan_bind(struct compile *c, const struct ast *ast)
{
    bool is_bind = ast->kind == AST_BIND;
    struct node *n =
        node_new(c, ast, is_bind ? run_bind : run_opt_map, is_bind ? "bind" : "optMap");
    if (!n) {
        return NULL;
    }
    n->a = plan(c, ast->target);
    ast->local->init = is_bind ? n->a : NULL;
    n->b = n->a ? plan(c, ast->body) : NULL;
    n->slot = ast->local->slot;
    n->flat = ast->flat;
    return n->b ? n : NULL;
}

static struct node *plan(struct compile *c, const struct ast *ast)
{
    switch (ast->kind) {
    case AST_CONST:
        return plan_const(c, ast);
    case AST_LOCAL:
        return plan_local(c, ast);
    case AST_VARIABLE:
        return plan_variable(c, ast);
    case AST_SELECT:
        return plan_select(c, ast);
    case AST_INDEX:
        return plan_index(c, ast);
    case AST_CALL:
        return plan_call(c, ast);
    case AST_LIST:
    case AST_MAP:
        return plan_aggregate(c, ast);
    case AST_UNARY:
        return plan_unary(c, ast);
    case AST_BINARY:
        return plan_binary(c, ast);
    case AST_LOGIC:
        return plan_logic(c, ast);
    case AST_CONDITION:
        return plan_condition(c, ast);
    case AST_LOOP:
        return plan_loop(c, ast);
    case AST_BIND:
    case AST_OPT_MAP:
        return plan_bind(c, ast);
    default:
        return node_new(c, ast, run_unbound, "unbound");
    }
}

/* How many names two selections begin with in common. */
static uint32_t common_names(const struct node *a, const struct node *b)
{
    uint32_t i = 0;
    if (a->slot != b->slot) {
        return 0;
    }
    while (i < a->count && i < b->count &&
           str_eq(policy_value_str(a->names[i]), policy_value_str(b->names[i]))) {
        i++;
    }
    return i;
}

/* Adds to the chain number `at` a memo after `count` names, in the slot that an earlier chain has
 * for the same ones, or in a new one. */
static void add_memo(struct compile *c, struct node_memo *memos, uint8_t *memo_at, uint32_t at,
                     uint32_t count)
{
    struct node *n = c->chains[at];
    uint32_t slot = UINT32_MAX;
    for (uint32_t i = 0; i < n->memo_count; i++) {
        if (memos[i].count == count) {
            return;
        }
    }
    for (uint32_t i = 0; i < at && slot == UINT32_MAX; i++) {
        const struct node *other = c->chains[i];
        for (uint32_t k = 0; k < other->memo_count && common_names(n, other) >= count; k++) {
            slot = other->memos[k].count == count ? other->memos[k].slot : slot;
        }
    }
    if (slot == UINT32_MAX && c->memo_count == PROGRAM_MEMOS_MAX) {
        return;
    }
    slot = slot == UINT32_MAX ? c->memo_count++ : slot;
    uint32_t to = n->memo_count++;
    for (; to > 0 && memos[to - 1].count > count; to--) {
        memos[to] = memos[to - 1];
    }
    memos[to] = (struct node_memo){count, slot};
    memo_at[count - 1] = (uint8_t)(slot + 1);
}

/* ctx.a.b.c and ctx.a.b.d: the second one goes on from ctx.a.b. */
static bool share_prefixes(struct compile *c)
{
    for (uint32_t i = 0; i < c->chain_count; i++) {
        struct node_memo *memos = arena_calloc(c->arena, PROGRAM_MEMOS_MAX, sizeof *memos);
        uint8_t *memo_at = arena_zalloc(c->arena, c->chains[i]->count);
        if (!memos || !memo_at) {
            return false;
        }
        c->chains[i]->memos = memos;
        c->chains[i]->memo_at = memo_at;
        for (uint32_t k = 0; k < c->chain_count; k++) {
            uint32_t common = k != i ? common_names(c->chains[i], c->chains[k]) : 0;
            if (common > 0 && c->chains[i]->memo_count < PROGRAM_MEMOS_MAX) {
                add_memo(c, memos, memo_at, i, common);
            }
        }
    }
    return true;
}

const struct node *plan_tree(struct compile *c, const struct ast *root)
{
    const struct node *n = plan(c, root);
    if (n && !share_prefixes(c)) {
        return compile_out_of_memory(c);
    }
    return n;
}
