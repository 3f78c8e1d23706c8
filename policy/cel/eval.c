#include "policy/cel/eval.h"

#include <stdio.h>

#include "policy/cel/env.h"

enum { LOCALS_ON_STACK = 16, QUOTE_BYTES_MAX = 64, SNIPPET_BYTES_MAX = 60 };

struct policy_value eval_fail_on(struct eval *e, const struct node *n, int code, const char *text,
                                 struct policy_value subject)
{
    struct failure *f = arena_alloc(e->arena, sizeof *f);
    if (!f) {
        f = &e->fallback;
        code = POLICY_E_MEMORY;
        text = "evaluation needs more memory than it may use";
        subject = policy_absent();
    }
    *f = (struct failure){code, n, text, subject};
    return (struct policy_value){.kind = POLICY_FAILURE, .as.opaque = f};
}

struct policy_value eval_fail(struct eval *e, const struct node *n, int code, const char *text)
{
    return eval_fail_on(e, n, code, text, policy_absent());
}

struct policy_value eval_out_of_memory(struct eval *e, const struct node *n)
{
    return eval_fail(e, n, POLICY_E_MEMORY, "evaluation needs more memory than it may use");
}

struct policy_value eval_no_overload(struct eval *e, const struct node *n,
                                     struct policy_value subject)
{
    const char *text = arena_printf(e->arena, "'%.*s' does not take a value of type %s",
                                    STR_ARG(n->name), policy_kind_name(subject.kind));
    return text ? eval_fail(e, n, POLICY_E_NO_SUCH_OVERLOAD, text) : eval_out_of_memory(e, n);
}

struct policy_value eval_fail_code(struct eval *e, const struct node *n, int negated_code)
{
    switch (-negated_code) {
    case POLICY_E_MEMORY:
        return eval_out_of_memory(e, n);
    case POLICY_E_COST:
        return eval_limit(e, n);
    case POLICY_E_DEPTH:
        return eval_fail(e, n, POLICY_E_DEPTH, "values are nested too deeply");
    default:
        return eval_fail(e, n, POLICY_E_INPUT, "the input could not be read");
    }
}

/* The slice is used up: takes more from the budget and looks at the clock. */
bool eval_refuel(struct eval *e, uint64_t cost)
{
    uint64_t debt = e->fuel < 0 ? (uint64_t)-e->fuel : 0;
    uint64_t have = e->fuel > 0 ? (uint64_t)e->fuel : 0;
    uint64_t missing;
    if (__builtin_add_overflow(cost - (cost < have ? cost : have), debt, &missing) ||
        missing > e->cost_left) {
        e->cost_left = 0;
        e->fuel = 0;
        return false;
    }
    e->cost_left -= missing;
    uint64_t slice = e->cost_left < EVAL_SLICE ? e->cost_left : EVAL_SLICE;
    e->cost_left -= slice;
    e->fuel = (int64_t)slice;
    const struct policy_input *in = e->input;
    if (in->deadline_ns && in->clock_ns && in->clock_ns(in->clock_context) >= in->deadline_ns) {
        e->fuel = 0;
        e->cost_left = 0;
        e->fallback.code = POLICY_E_DEADLINE;
        return false;
    }
    return true;
}

bool eval_turn(struct eval *e)
{
    if (e->iterations_left == 0) {
        e->fallback.code = POLICY_E_ITERATIONS;
        e->fuel = 0;
        e->cost_left = 0;
        return false;
    }
    e->iterations_left--;
    return eval_charge(e, 1);
}

struct policy_value eval_limit(struct eval *e, const struct node *n)
{
    if (e->fallback.code == POLICY_E_DEADLINE) {
        return eval_fail(e, n, POLICY_E_DEADLINE, "evaluation did not end before its deadline");
    }
    if (e->fallback.code == POLICY_E_ITERATIONS) {
        return eval_fail(e, n, POLICY_E_ITERATIONS, "evaluation used up its loop iterations");
    }
    return eval_fail(e, n, POLICY_E_COST, "evaluation used up its cost budget");
}

int eval_list_get(struct eval *e, const struct policy_list *list, size_t index,
                  struct policy_value *ret)
{
    const struct array_list *array = value_array(list);
    if (array) {
        *ret = array->items[index];
        return 0;
    }
    struct policy_value item = list->ops->get(list, index, e->arena);
    if (item.kind == POLICY_ABSENT) {
        return value_input_error(policy_value_status(item));
    }
    *ret = item;
    return 0;
}

struct policy_value eval_make_list(struct eval *e, const struct node *n, size_t count,
                                   struct policy_value **ret_items)
{
    if (!eval_charge(e, 1 + count / 4)) {
        return eval_limit(e, n);
    }
    struct policy_value *items = arena_calloc(e->arena, count, sizeof *items);
    const struct policy_list *list = items ? policy_list_build(e->arena, items, count) : NULL;
    if (!list) {
        return eval_out_of_memory(e, n);
    }
    *ret_items = items;
    return policy_list(list);
}

struct policy_value eval_make_map(struct eval *e, const struct node *n,
                                  struct policy_entry *entries, size_t count)
{
    const struct policy_map *map;
    if (!eval_charge(e, 1 + count)) {
        return eval_limit(e, n);
    }
    for (size_t i = 0; i < count; i++) {
        if (!value_is_key(entries[i].key)) {
            return eval_fail_on(e, n, POLICY_E_NO_SUCH_OVERLOAD,
                                "a map's key must be a bool, int, uint or string, not",
                                entries[i].key);
        }
    }
    int status = policy_map_build(e->arena, entries, count, &map);
    if (status == -STATUS_INVALID_ARGUMENT) {
        return eval_fail(e, n, POLICY_E_DUPLICATE_KEY, "a map has the same key twice");
    }
    return status ? eval_out_of_memory(e, n) : policy_map(map);
}

struct policy_value eval_make_optional(struct eval *e, const struct node *n,
                                       struct policy_value inner)
{
    struct policy_value v = policy_optional(e->arena, &inner);
    return v.kind == POLICY_ABSENT ? eval_out_of_memory(e, n) : v;
}

char *eval_alloc(struct eval *e, size_t bytes)
{
    if (bytes > UINT32_MAX || !eval_charge(e, eval_text_cost(bytes))) {
        return NULL;
    }
    return arena_alloc(e->arena, bytes);
}

struct policy_value eval_alloc_failed(struct eval *e, const struct node *n)
{
    return e->fuel == 0 && e->cost_left == 0 ? eval_limit(e, n) : eval_out_of_memory(e, n);
}

struct policy_value eval_take_text(uint8_t kind, const char *text, size_t len)
{
    return (struct policy_value){.kind = kind, .len = (uint32_t)len, .as.text = text};
}

struct policy_value run_const(struct eval *e, const struct node *n)
{
    (void)e;
    return n->value;
}

struct policy_value run_unbound(struct eval *e, const struct node *n)
{
    return eval_fail_on(e, n, POLICY_E_UNBOUND, "unknown name", policy_string(n->name));
}

struct policy_value run_variable(struct eval *e, const struct node *n)
{
    if (n->slot >= e->vars_count || e->vars[n->slot].kind == POLICY_ABSENT) {
        return eval_fail_on(e, n, POLICY_E_UNBOUND, "no value for the variable",
                            policy_string(n->name));
    }
    return e->vars[n->slot];
}

struct policy_value run_local(struct eval *e, const struct node *n)
{
    return e->locals[n->slot];
}

/* A variable of cel.bind: n->a is its initializer, evaluated at most once. */
struct policy_value run_lazy(struct eval *e, const struct node *n)
{
    if (e->locals[n->slot].kind == KIND_LAZY) {
        e->locals[n->slot] = eval_node(e, n->a);
    }
    return e->locals[n->slot];
}

struct policy_value run_bind(struct eval *e, const struct node *n)
{
    e->locals[n->slot] = (struct policy_value){.kind = KIND_LAZY};
    return eval_node(e, n->b);
}

static struct policy_value failure_value(const void *failure)
{
    return (struct policy_value){.kind = POLICY_FAILURE, .as.opaque = failure};
}

/* `decisive` decides the whole, whatever failed before it; a limit that was hit is not absorbed. */
static struct policy_value run_logic(struct eval *e, const struct node *n, bool decisive)
{
    const void *first_failure = NULL;
    for (uint32_t i = 0; i < n->count; i++) {
        struct policy_value v = eval_node(e, n->items[i]);
        if (v.kind == POLICY_BOOL) {
            if (v.as.truth == decisive) {
                return policy_bool(decisive);
            }
            continue;
        }
        if (!value_failed(v)) {
            v = eval_no_overload(e, n, v);
        }
        if (policy_error_is_limit(value_failure(v)->code)) {
            return v;
        }
        first_failure = first_failure ? first_failure : v.as.opaque;
    }
    return first_failure ? failure_value(first_failure) : policy_bool(!decisive);
}

struct policy_value run_and(struct eval *e, const struct node *n)
{
    return run_logic(e, n, false);
}

struct policy_value run_or(struct eval *e, const struct node *n)
{
    return run_logic(e, n, true);
}

struct policy_value run_not(struct eval *e, const struct node *n)
{
    struct policy_value v = eval_node(e, n->a);
    if (v.kind == POLICY_BOOL) {
        return policy_bool(!v.as.truth);
    }
    return value_failed(v) ? v : eval_no_overload(e, n, v);
}

struct policy_value run_negate(struct eval *e, const struct node *n)
{
    struct policy_value v = eval_node(e, n->a);
    return value_failed(v) ? v : eval_negate(e, n, v);
}

struct policy_value run_condition(struct eval *e, const struct node *n)
{
    struct policy_value v = eval_node(e, n->a);
    if (v.kind == POLICY_BOOL) {
        return eval_node(e, v.as.truth ? n->b : n->c);
    }
    return value_failed(v) ? v : eval_no_overload(e, n, v);
}

struct policy_value run_binary(struct eval *e, const struct node *n)
{
    struct policy_value l = eval_node(e, n->a);
    if (value_failed(l)) {
        return l;
    }
    struct policy_value r = eval_node(e, n->b);
    if (value_failed(r)) {
        return r;
    }
    if (!eval_charge(e, 1)) {
        return eval_limit(e, n);
    }
    return eval_binary_op(e, n, n->op, l, r);
}

/* a + b - c: items[0], then count - 1 times an operator and an operand. */
struct policy_value run_chain(struct eval *e, const struct node *n)
{
    struct policy_value l = eval_node(e, n->items[0]);
    for (uint32_t i = 1; i < n->count && !value_failed(l); i++) {
        struct policy_value r = eval_node(e, n->items[i]);
        if (value_failed(r)) {
            return r;
        }
        if (!eval_charge(e, 1)) {
            return eval_limit(e, n);
        }
        l = eval_binary_op(e, n, n->ops[i - 1], l, r);
    }
    return l;
}

struct policy_value run_equal(struct eval *e, const struct node *n)
{
    struct policy_value l = eval_node(e, n->a);
    if (value_failed(l)) {
        return l;
    }
    struct policy_value r = eval_node(e, n->b);
    if (value_failed(r)) {
        return r;
    }
    if (l.kind == POLICY_STRING && r.kind == POLICY_STRING) {
        if (!eval_charge(e, eval_text_cost(l.len < r.len ? l.len : r.len))) {
            return eval_limit(e, n);
        }
        bool same = l.len == r.len && str_same_bytes(l.as.text, r.as.text, l.len);
        return policy_bool(same == (n->op == OP_EQ));
    }
    struct policy_value same = eval_equal(e, n, l, r);
    return value_failed(same) || n->op == OP_EQ ? same : policy_bool(!same.as.truth);
}

/* The same where the right side, n->b, is a constant text: the shape of most rules. */
struct policy_value run_equal_text(struct eval *e, const struct node *n)
{
    const struct policy_value *text = &n->b->value;
    struct policy_value v = eval_node(e, n->a);
    if (v.kind != POLICY_STRING) {
        return value_failed(v) ? v : policy_bool(n->op == OP_NE);
    }
    if (!eval_charge(e, eval_text_cost(v.len < text->len ? v.len : text->len))) {
        return eval_limit(e, n);
    }
    bool same = v.len == text->len && str_same_bytes(v.as.text, text->as.text, text->len);
    return policy_bool(same == (n->op == OP_EQ));
}

/* "name" in map, where the left side, n->a, is a constant text. */
struct policy_value run_in_name(struct eval *e, const struct node *n)
{
    const struct policy_value *name = &n->a->value;
    struct policy_value container = eval_node(e, n->b);
    if (value_failed(container)) {
        return container;
    }
    if (!eval_charge(e, 1)) {
        return eval_limit(e, n);
    }
    const struct entry_map *small =
        container.kind == POLICY_MAP ? value_small_map(container.as.map) : NULL;
    if (small) {
        return policy_bool(value_small_map_find(small, name->as.text, name->len));
    }
    return eval_in(e, n, *name, container);
}

/* x in [constants]: n->value is the set as a map. */
struct policy_value run_in_set(struct eval *e, const struct node *n)
{
    struct policy_value item = eval_node(e, n->a);
    struct policy_value ignored;
    if (value_failed(item)) {
        return item;
    }
    if (!eval_charge(e, 2)) {
        return eval_limit(e, n);
    }
    const struct entry_map *small =
        item.kind == POLICY_STRING ? value_small_map(n->value.as.map) : NULL;
    if (small) {
        return policy_bool(value_small_map_find(small, item.as.text, item.len));
    }
    return policy_bool(policy_map_get(n->value.as.map, item, e->arena, &ignored) == 1);
}

static bool overload_fits(const struct overload *o, const struct policy_value *args, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (o->kinds[i] != args[i].kind && o->kinds[i] != KIND_ANY) {
            return false;
        }
    }
    return true;
}

static struct policy_value no_fitting_overload(struct eval *e, const struct node *n,
                                               const struct policy_value *args)
{
    char types[160];
    size_t len = 0;
    types[0] = '\0';
    for (uint32_t i = 0; i < n->count && len < sizeof types - 40; i++) {
        const char *separator = i > 0 ? ", " : "";
        int added = snprintf(types + len, sizeof types - len, "%s%s", separator,
                             policy_kind_name(args[i].kind));
        len += added > 0 ? (size_t)added : 0;
    }
    const char *text = arena_printf(e->arena, "'%.*s' does not take (%s)", STR_ARG(n->name), types);
    return text ? eval_fail(e, n, POLICY_E_NO_SUCH_OVERLOAD, text) : eval_out_of_memory(e, n);
}

/* n->overloads: those with the right number of arguments, slot of them. */
struct policy_value run_call(struct eval *e, const struct node *n)
{
    struct policy_value args[FUNCTION_ARGS_MAX];
    for (uint32_t i = 0; i < n->count; i++) {
        args[i] = eval_node(e, n->items[i]);
        if (value_failed(args[i])) {
            return args[i];
        }
    }
    if (!eval_charge(e, 1)) {
        return eval_limit(e, n);
    }
    for (uint32_t i = 0; i < n->slot; i++) {
        const struct overload *o = &n->overloads[i];
        if (o->impl && overload_fits(o, args, n->count)) {
            return o->impl(e, n, args);
        }
    }
    return no_fitting_overload(e, n, args);
}

struct policy_value eval_traced(struct eval *e, const struct node *n)
{
    struct policy_value v = n->run(e, n);
    struct policy_trace_step step = {.begin = n->begin, .end = n->end, .value = v};
    if (value_failed(v)) {
        step.code = value_failure(v)->code;
        step.value = policy_absent();
    }
    if (n->run != run_const) {
        e->input->trace(e->input->trace_context, &step);
    }
    return v;
}

/* "no such key 'x', in: ctx.a.x", with the place. */
static int report(const struct policy_program *program, const struct failure *f, struct error *err)
{
    if (!err) {
        return -f->code;
    }
    uint32_t line = 1;
    uint32_t column = 1;
    for (uint32_t i = 0; i < f->node->at && i < program->text.len; i++) {
        unsigned char c = (unsigned char)program->text.ptr[i];
        column = c == '\n' ? 1 : column + ((c & 0xC0) != 0x80);
        line += c == '\n';
    }
    struct buf b;
    buf_init(&b, ERROR_TEXT_MAX);
    buf_add_cstr(&b, f->text);
    if (f->subject.kind != POLICY_ABSENT) {
        buf_add_cstr(&b, " ");
        policy_value_print(f->subject, QUOTE_BYTES_MAX, &b);
    }
    struct str snippet =
        str_make(program->text.ptr + f->node->begin, f->node->end - f->node->begin);
    const char *more = snippet.len > SNIPPET_BYTES_MAX ? "..." : "";
    while (snippet.len > SNIPPET_BYTES_MAX ||
           (snippet.len > 0 && snippet.len == SNIPPET_BYTES_MAX &&
            ((unsigned char)snippet.ptr[snippet.len] & 0xC0) == 0x80)) {
        snippet.len--;
    }
    buf_printf(&b, ", in: %.*s%s", STR_ARG(snippet), more);
    int status =
        policy_error_is_limit(f->code) ? STATUS_RESOURCE_EXHAUSTED : STATUS_INVALID_ARGUMENT;
    (void)error_set_at(err, status, line, column, "%.*s", (int)b.len, (const char *)b.ptr);
    buf_free(&b);
    return -f->code;
}

/* The first slice of the budget; looks at the clock when there is a deadline. */
static bool eval_start(struct eval *e)
{
    if (e->input->deadline_ns) {
        return eval_refuel(e, 0);
    }
    uint64_t slice = e->cost_left < EVAL_SLICE ? e->cost_left : EVAL_SLICE;
    e->cost_left -= slice;
    e->fuel = (int64_t)slice;
    return true;
}

int policy_eval(const struct policy_program *program, const struct policy_input *input,
                struct arena *arena, struct policy_value *ret_value, struct error *err)
{
    struct policy_value locals[LOCALS_ON_STACK];
    struct policy_value memos[PROGRAM_MEMOS_MAX];
    struct eval e = {
        .arena = arena,
        .memos = memos,
        .vars = input->vars,
        .vars_count = input->vars_count,
        .locals = locals,
        .cost_left = input->cost_max ? input->cost_max : EVAL_COST_DEFAULT,
        .iterations_left = input->iterations_max ? input->iterations_max : EVAL_ITERATIONS_DEFAULT,
        .input = input,
    };
    struct policy_value v;
    for (uint32_t i = 0; i < program->memo_count; i++) {
        memos[i].kind = POLICY_ABSENT;
    }
    if (program->locals_count > LOCALS_ON_STACK) {
        e.locals = arena_calloc(arena, program->locals_count, sizeof *e.locals);
    }
    if (!e.locals) {
        v = eval_out_of_memory(&e, program->root);
    } else if (!eval_start(&e)) {
        v = eval_limit(&e, program->root);
    } else {
        v = eval_node(&e, program->root);
    }
    if (value_failed(v)) {
        const struct failure *f = value_failure(v);
        bool is_brief = input->is_brief &&
                        (policy_error_is_missing_input(f->code) || f->code == POLICY_E_INDEX_RANGE);
        return is_brief ? -f->code : report(program, f, err);
    }
    *ret_value = v;
    return 0;
}
