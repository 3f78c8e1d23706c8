#include "policy/cel/eval.h"

#include <math.h>

/* Selections and indexes, with the optional forms: CEL language definition, "Field selection",
 * and the optional types extension. */

static struct policy_value none(void)
{
    return (struct policy_value){.kind = POLICY_OPTIONAL};
}

static struct policy_value missing_member(struct eval *e, const struct node *n,
                                          struct policy_value v, struct policy_value name)
{
    if (v.kind == POLICY_MAP) {
        return eval_fail_on(e, n, POLICY_E_NO_SUCH_KEY, "no such key", name);
    }
    const char *text =
        arena_printf(e->arena, "a value of type %s has no member", policy_kind_name(v.kind));
    return text ? eval_fail_on(e, n, POLICY_E_NO_SUCH_FIELD, text, name) : eval_out_of_memory(e, n);
}

/* Wraps unless it is an optional already. */
static struct policy_value as_optional(struct eval *e, const struct node *n, struct policy_value v)
{
    return v.kind == POLICY_OPTIONAL ? v : eval_make_optional(e, n, v);
}

static struct policy_value select_slow(struct eval *e, const struct node *n, struct policy_value v,
                                       struct policy_value name, bool optional)
{
    struct policy_value member;
    if (v.kind == POLICY_OPTIONAL) {
        if (!v.as.inner) {
            return v;
        }
        v = *v.as.inner;
        optional = true;
    }
    if (v.kind != POLICY_MAP) {
        return missing_member(e, n, v, name);
    }
    int found = value_map_get_name(v.as.map, name, e->arena, &member);
    if (found < 0) {
        return eval_fail_code(e, n, value_input_error(found));
    }
    if (found == 0) {
        return optional ? none() : missing_member(e, n, v, name);
    }
    return optional ? as_optional(e, n, member) : member;
}

/* Why v.name gave nothing, or what it gives when v is no map; `given` is what its map said. */
__attribute__((noinline)) static struct policy_value
select_unusual(struct eval *e, const struct node *n, struct policy_value v,
               struct policy_value name, struct policy_value given)
{
    int status = policy_value_status(given);
    if (status) {
        return eval_fail_code(e, n, value_input_error(status));
    }
    return v.kind == POLICY_MAP ? missing_member(e, n, v, name) : select_slow(e, n, v, name, false);
}

static inline struct policy_value
member_of_map(struct policy_value v, const struct policy_value *name, struct arena *arena)
{
    if (v.kind != POLICY_MAP) {
        return policy_absent();
    }
    const struct entry_map *small = value_small_map(v.as.map);
    if (!small) {
        return v.as.map->ops->get(v.as.map, *name, arena);
    }
    const struct policy_value *member = value_small_map_find(small, name->as.text, name->len);
    return member ? *member : policy_absent();
}

/* The names from number i on. What other chains begin with as well is remembered on the way. */
static inline struct policy_value select_names(struct eval *e, const struct node *n,
                                               struct policy_value v, uint32_t i)
{
    for (; i < n->count; i++) {
        struct policy_value member = member_of_map(v, &n->names[i], e->arena);
        if (__builtin_expect(member.kind == POLICY_ABSENT, 0)) {
            member = select_unusual(e, n, v, n->names[i], member);
            if (value_failed(member)) {
                return member;
            }
        }
        v = member;
        if (n->memo_count && n->memo_at[i]) {
            e->memos[n->memo_at[i] - 1] = v;
        }
    }
    return v;
}

/* n->a.names[0].names[1]... */
struct policy_value run_select(struct eval *e, const struct node *n)
{
    struct policy_value v = eval_node(e, n->a);
    if (value_failed(v)) {
        return v;
    }
    return eval_charge(e, n->count) ? select_names(e, n, v, 0) : eval_limit(e, n);
}

/* The same from a declared variable, which stays the same in an evaluation: goes on from the
 * longest prefix that was met before. */
struct policy_value run_select_variable(struct eval *e, const struct node *n)
{
    if (n->slot >= e->vars_count || e->vars[n->slot].kind == POLICY_ABSENT) {
        return run_variable(e, n);
    }
    if (!eval_charge(e, n->count)) {
        return eval_limit(e, n);
    }
    for (uint32_t k = n->memo_count; k-- > 0;) {
        const struct policy_value *met = &e->memos[n->memos[k].slot];
        if (met->kind != POLICY_ABSENT) {
            return select_names(e, n, *met, n->memos[k].count);
        }
    }
    return select_names(e, n, e->vars[n->slot], 0);
}

struct policy_value run_opt_select(struct eval *e, const struct node *n)
{
    struct policy_value v = eval_node(e, n->a);
    if (value_failed(v)) {
        return v;
    }
    if (!eval_charge(e, 1)) {
        return eval_limit(e, n);
    }
    return select_slow(e, n, v, n->value, true);
}

struct policy_value run_has(struct eval *e, const struct node *n)
{
    struct policy_value v = eval_node(e, n->a);
    struct policy_value ignored;
    if (value_failed(v)) {
        return v;
    }
    if (!eval_charge(e, 1)) {
        return eval_limit(e, n);
    }
    if (v.kind == POLICY_OPTIONAL) {
        if (!v.as.inner) {
            return policy_bool(false);
        }
        v = *v.as.inner;
    }
    if (v.kind != POLICY_MAP) {
        return missing_member(e, n, v, n->value);
    }
    int found = value_map_get_name(v.as.map, n->value, e->arena, &ignored);
    return found < 0 ? eval_fail_code(e, n, value_input_error(found)) : policy_bool(found == 1);
}

/* A list's index from an int, a uint, or a double without fraction. */
static bool index_number(struct policy_value key, int64_t *ret)
{
    if (key.kind == POLICY_INT) {
        *ret = key.as.i;
        return true;
    }
    if (key.kind == POLICY_UINT) {
        *ret = key.as.u > INT64_MAX ? -1 : (int64_t)key.as.u;
        return true;
    }
    if (key.kind == POLICY_DOUBLE && fabs(key.as.d) < 0x1p53 && trunc(key.as.d) == key.as.d) {
        *ret = (int64_t)key.as.d;
        return true;
    }
    return false;
}

static struct policy_value index_list(struct eval *e, const struct node *n,
                                      const struct policy_list *list, struct policy_value key,
                                      bool optional)
{
    int64_t index;
    struct policy_value item;
    if (!index_number(key, &index)) {
        return eval_fail_on(e, n, POLICY_E_INVALID_ARGUMENT, "a list has no such index:", key);
    }
    if (index < 0 || (uint64_t)index >= policy_list_size(list)) {
        return optional ? none()
                        : eval_fail_on(e, n, POLICY_E_INDEX_RANGE, "index out of range:", key);
    }
    int code = eval_list_get(e, list, (size_t)index, &item);
    if (code) {
        return eval_fail_code(e, n, code);
    }
    return optional ? as_optional(e, n, item) : item;
}

struct policy_value eval_index_of(struct eval *e, const struct node *n, struct policy_value target,
                                  struct policy_value key, bool optional)
{
    struct policy_value member;
    if (target.kind == POLICY_OPTIONAL) {
        if (!target.as.inner) {
            return target;
        }
        target = *target.as.inner;
        optional = true;
    }
    if (target.kind == POLICY_LIST) {
        return index_list(e, n, target.as.list, key, optional);
    }
    if (target.kind != POLICY_MAP) {
        return eval_no_overload(e, n, target);
    }
    int found = policy_map_get(target.as.map, key, e->arena, &member);
    if (found < 0) {
        return eval_fail_code(e, n, value_input_error(found));
    }
    if (found == 0) {
        return optional ? none() : eval_fail_on(e, n, POLICY_E_NO_SUCH_KEY, "no such key", key);
    }
    return optional ? as_optional(e, n, member) : member;
}

static struct policy_value run_any_index(struct eval *e, const struct node *n, bool optional)
{
    struct policy_value target = eval_node(e, n->a);
    if (value_failed(target)) {
        return target;
    }
    struct policy_value key = eval_node(e, n->b);
    if (value_failed(key)) {
        return key;
    }
    if (!eval_charge(e, 1)) {
        return eval_limit(e, n);
    }
    return eval_index_of(e, n, target, key, optional);
}

struct policy_value run_index(struct eval *e, const struct node *n)
{
    return run_any_index(e, n, false);
}

struct policy_value run_opt_index(struct eval *e, const struct node *n)
{
    return run_any_index(e, n, true);
}

static bool is_optional_arg(const struct node *n, size_t index)
{
    return n->optional_args && n->optional_args[index];
}

/* The content of a `?` element: false when there is none, or with *v the failure. */
static bool take_optional(struct eval *e, const struct node *n, struct policy_value *v)
{
    if (v->kind != POLICY_OPTIONAL) {
        *v = eval_no_overload(e, n, *v);
        return true;
    }
    if (!v->as.inner) {
        return false;
    }
    *v = *v->as.inner;
    return true;
}

struct policy_value run_list(struct eval *e, const struct node *n)
{
    struct policy_value *items;
    struct policy_value list = eval_make_list(e, n, n->count, &items);
    if (value_failed(list) || !eval_charge(e, 10)) {
        return value_failed(list) ? list : eval_limit(e, n);
    }
    size_t count = 0;
    for (uint32_t i = 0; i < n->count; i++) {
        struct policy_value v = eval_node(e, n->items[i]);
        if (value_failed(v)) {
            return v;
        }
        if (is_optional_arg(n, i) && !take_optional(e, n, &v)) {
            continue;
        }
        if (value_failed(v)) {
            return v;
        }
        items[count++] = v;
    }
    const struct policy_list *built = policy_list_build(e->arena, items, count);
    return built ? policy_list(built) : eval_out_of_memory(e, n);
}

struct policy_value run_map(struct eval *e, const struct node *n)
{
    if (!eval_charge(e, 30)) {
        return eval_limit(e, n);
    }
    struct policy_entry *entries = arena_calloc(e->arena, n->count / 2, sizeof *entries);
    size_t count = 0;
    if (!entries) {
        return eval_out_of_memory(e, n);
    }
    for (uint32_t i = 0; i + 1 < n->count; i += 2) {
        struct policy_value key = eval_node(e, n->items[i]);
        if (value_failed(key)) {
            return key;
        }
        struct policy_value value = eval_node(e, n->items[i + 1]);
        if (value_failed(value)) {
            return value;
        }
        if (is_optional_arg(n, i) && !take_optional(e, n, &value)) {
            continue;
        }
        if (value_failed(value)) {
            return value;
        }
        entries[count++] = (struct policy_entry){key, value};
    }
    return eval_make_map(e, n, entries, count);
}

/* a.optMap(local, b) */
struct policy_value run_opt_map(struct eval *e, const struct node *n)
{
    struct policy_value v = eval_node(e, n->a);
    if (value_failed(v)) {
        return v;
    }
    if (v.kind != POLICY_OPTIONAL) {
        return eval_no_overload(e, n, v);
    }
    if (!v.as.inner) {
        return v;
    }
    e->locals[n->slot] = *v.as.inner;
    struct policy_value mapped = eval_node(e, n->b);
    if (value_failed(mapped)) {
        return mapped;
    }
    if (!n->flat) {
        return eval_make_optional(e, n, mapped);
    }
    return mapped.kind == POLICY_OPTIONAL ? mapped : eval_no_overload(e, n, mapped);
}

/* a.or(b), and with `flat` a.orValue(b): b only when a is none. */
struct policy_value run_opt_or(struct eval *e, const struct node *n)
{
    struct policy_value v = eval_node(e, n->a);
    if (value_failed(v)) {
        return v;
    }
    if (v.kind != POLICY_OPTIONAL) {
        return eval_no_overload(e, n, v);
    }
    if (v.as.inner) {
        return n->flat ? *v.as.inner : v;
    }
    struct policy_value other = eval_node(e, n->b);
    if (!n->flat && !value_failed(other) && other.kind != POLICY_OPTIONAL) {
        return eval_no_overload(e, n, other);
    }
    return other;
}
