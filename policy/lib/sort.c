#include "policy/lib/sort.h"

/* Merges two sorted neighbours [low, middle) and [middle, high) from `from` into `to`. */
static void merge(const struct policy_entry *from, struct policy_entry *to, size_t low,
                  size_t middle, size_t high)
{
    size_t left = low;
    size_t right = middle;
    for (size_t i = low; i < high; i++) {
        bool take_left =
            left < middle && (right >= high || value_compare(from[left].key, from[right].key) <= 0);
        to[i] = take_left ? from[left++] : from[right++];
    }
}

static uint64_t sort_cost(size_t count)
{
    uint64_t rounds = 1;
    for (size_t width = 1; width < count; width *= 2) {
        rounds++;
    }
    return rounds * count;
}

struct policy_value sort_entries(struct eval *e, const struct node *n, struct policy_entry *entries,
                                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (entries[i].key.kind != entries[0].key.kind ||
            value_compare(entries[i].key, entries[i].key) == ORDER_NONE) {
            return eval_no_overload(e, n, entries[i].key);
        }
    }
    if (!eval_charge(e, sort_cost(count))) {
        return eval_limit(e, n);
    }
    struct policy_entry *spare = arena_calloc(e->arena, count, sizeof *spare);
    if (!spare) {
        return eval_out_of_memory(e, n);
    }
    struct policy_entry *from = entries;
    struct policy_entry *to = spare;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t low = 0; low < count; low += 2 * width) {
            size_t middle = low + width < count ? low + width : count;
            size_t high = middle + width < count ? middle + width : count;
            merge(from, to, low, middle, high);
        }
        struct policy_entry *swap = from;
        from = to;
        to = swap;
    }
    if (from != entries && count > 0) {
        memcpy(entries, from, count * sizeof *entries);
    }
    return policy_null();
}
