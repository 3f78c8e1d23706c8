#include "policy/cel/eval.h"

#include "policy/lib/sort.h"

/* One comprehension in progress. Each turn gets the variables, then runs filter and body. */
struct loop {
    struct eval *e;
    const struct node *n;
    struct policy_value failed; /* first absorbed failure of all() and exists() */
    bool has_failed;
    bool done; /* `result` is final */
    struct policy_value result;
    size_t matches;             /* of exists_one */
    struct policy_value *items; /* of the loops that build a list */
    struct policy_entry *entries;
    size_t count;
    size_t room;
};

static void stop(struct loop *l, struct policy_value result)
{
    l->result = result;
    l->done = true;
}

/* Room for one more item or entry. */
static bool make_room(struct loop *l)
{
    if (l->count < l->room) {
        return true;
    }
    size_t room = l->room ? l->room * 2 : 8;
    bool is_list = l->n->op == LOOP_LIST;
    size_t size = is_list ? sizeof *l->items : sizeof *l->entries;
    void *grown = eval_charge(l->e, room / 4) ? arena_calloc(l->e->arena, room, size) : NULL;
    if (!grown) {
        stop(l, eval_alloc_failed(l->e, l->n));
        return false;
    }
    if (l->count > 0) {
        memcpy(grown, is_list ? (void *)l->items : (void *)l->entries, l->count * size);
    }
    l->items = is_list ? grown : l->items;
    l->entries = is_list ? l->entries : grown;
    l->room = room;
    return true;
}

static void add_entry(struct loop *l, struct policy_value key, struct policy_value value)
{
    if (make_room(l)) {
        l->entries[l->count++] = (struct policy_entry){key, value};
    }
}

/* all() and exists(): the deciding value ends the loop, failures wait for it. */
static void step_predicate(struct loop *l, struct policy_value v, bool deciding)
{
    if (v.kind == POLICY_BOOL) {
        if (v.as.truth == deciding) {
            stop(l, v);
        }
        return;
    }
    if (!value_failed(v)) {
        v = eval_no_overload(l->e, l->n, v);
    }
    if (policy_error_is_limit(value_failure(v)->code)) {
        stop(l, v);
    } else if (!l->has_failed) {
        l->has_failed = true;
        l->failed = v;
    }
}

static void step_one(struct loop *l, struct policy_value v)
{
    if (v.kind == POLICY_BOOL) {
        l->matches += v.as.truth;
    } else {
        stop(l, value_failed(v) ? v : eval_no_overload(l->e, l->n, v));
    }
}

static void step_map_entry(struct loop *l, struct policy_value v)
{
    size_t cursor = 0;
    struct policy_value key;
    struct policy_value value;
    if (v.kind != POLICY_MAP) {
        stop(l, eval_no_overload(l->e, l->n, v));
        return;
    }
    for (;;) {
        int more = policy_map_next(v.as.map, &cursor, l->e->arena, &key, &value);
        if (more < 0) {
            stop(l, eval_fail_code(l->e, l->n, value_input_error(more)));
        }
        if (more <= 0 || l->done) {
            return;
        }
        add_entry(l, key, value);
    }
}

static void step_build(struct loop *l, struct policy_value first, struct policy_value v)
{
    if (value_failed(v)) {
        stop(l, v);
    } else if (l->n->op == LOOP_MAP_ENTRY) {
        step_map_entry(l, v);
    } else if (l->n->op == LOOP_LIST) {
        if (make_room(l)) {
            l->items[l->count++] = v;
        }
    } else {
        /* LOOP_MAP: under the range's key; LOOP_SORT_BY: what to sort by, and the element. */
        add_entry(l, l->n->op == LOOP_MAP ? first : v, l->n->op == LOOP_MAP ? v : first);
    }
}

/* One turn with the variables set. */
static void step(struct loop *l, struct policy_value first, struct policy_value second)
{
    const struct node *n = l->n;
    if (!eval_turn(l->e)) {
        stop(l, eval_limit(l->e, n));
        return;
    }
    l->e->locals[n->slot] = first;
    if (n->two_variables) {
        l->e->locals[n->slot2] = second;
    }
    if (n->b) {
        struct policy_value wanted = eval_node(l->e, n->b);
        if (wanted.kind != POLICY_BOOL) {
            stop(l, value_failed(wanted) ? wanted : eval_no_overload(l->e, n, wanted));
            return;
        }
        if (!wanted.as.truth) {
            return;
        }
    }
    struct policy_value v = n->c ? eval_node(l->e, n->c) : first;
    if (n->op == LOOP_ALL || n->op == LOOP_EXISTS) {
        step_predicate(l, v, n->op == LOOP_EXISTS);
    } else if (n->op == LOOP_EXISTS_ONE) {
        step_one(l, v);
    } else {
        step_build(l, first, v);
    }
}

static void over_list(struct loop *l, const struct policy_list *list)
{
    size_t count = policy_list_size(list);
    for (size_t i = 0; i < count && !l->done; i++) {
        struct policy_value item;
        int code = eval_list_get(l->e, list, i, &item);
        if (code) {
            stop(l, eval_fail_code(l->e, l->n, code));
        } else if (l->n->two_variables) {
            step(l, policy_int((int64_t)i), item);
        } else {
            step(l, item, item);
        }
    }
}

static void over_map(struct loop *l, const struct policy_map *map)
{
    size_t cursor = 0;
    while (!l->done) {
        struct policy_value key;
        struct policy_value value = policy_absent();
        int more =
            policy_map_next(map, &cursor, l->e->arena, &key, l->n->two_variables ? &value : NULL);
        if (more < 0) {
            stop(l, eval_fail_code(l->e, l->n, value_input_error(more)));
        }
        if (more <= 0) {
            return;
        }
        step(l, key, value);
    }
}

static struct policy_value sorted(struct loop *l)
{
    struct policy_value *items;
    struct policy_value list = eval_make_list(l->e, l->n, l->count, &items);
    if (value_failed(list)) {
        return list;
    }
    struct policy_value failed = sort_entries(l->e, l->n, l->entries, l->count);
    if (value_failed(failed)) {
        return failed;
    }
    for (size_t i = 0; i < l->count; i++) {
        items[i] = l->entries[i].value;
    }
    return list;
}

static struct policy_value finish(struct loop *l)
{
    if (l->done) {
        return l->result;
    }
    if (l->has_failed) {
        return l->failed;
    }
    const struct policy_list *list;
    switch (l->n->op) {
    case LOOP_ALL:
        return policy_bool(true);
    case LOOP_EXISTS:
        return policy_bool(false);
    case LOOP_EXISTS_ONE:
        return policy_bool(l->matches == 1);
    case LOOP_LIST:
        list = policy_list_build(l->e->arena, l->items, l->count);
        return list ? policy_list(list) : eval_out_of_memory(l->e, l->n);
    case LOOP_SORT_BY:
        return sorted(l);
    default:
        return eval_make_map(l->e, l->n, l->entries, l->count);
    }
}

struct policy_value run_loop(struct eval *e, const struct node *n)
{
    struct policy_value range = eval_node(e, n->a);
    if (value_failed(range)) {
        return range;
    }
    struct loop l = {.e = e, .n = n};
    if (range.kind == POLICY_LIST) {
        over_list(&l, range.as.list);
    } else if (range.kind == POLICY_MAP && n->op != LOOP_SORT_BY) {
        over_map(&l, range.as.map);
    } else {
        return eval_no_overload(e, n, range);
    }
    return finish(&l);
}
