#ifndef CEL_VALUE_H
#define CEL_VALUE_H

#include "policy/policy.h"

/* Marks of the evaluator in policy_value.kind. FAILURE: as.opaque is a struct failure. */
enum { KIND_LAZY = 250 };

enum { VALUE_DEPTH_MAX = 300, MAP_LINEAR_MAX = 8 };

/* The built-in list and map. */
struct array_list {
    struct policy_list list;
    const struct policy_value *items;
    size_t count;
};

struct entry_map {
    struct policy_map map;
    const struct policy_entry *entries;
    size_t count;
    const uint32_t *order; /* entries sorted by key, or NULL for a small map */
};

/* An IP (prefix unused) or a CIDR. IPv4 is kept as its 4 bytes. */
struct policy_address {
    uint8_t bytes[16];
    uint8_t family; /* 4 or 6 */
    uint8_t prefix;
};

extern const struct policy_list_ops array_list_ops;
extern const struct policy_map_ops entry_map_ops;

/* The items when the list is built-in, else NULL. */
static inline const struct array_list *value_array(const struct policy_list *list)
{
    return list->ops == &array_list_ops ? (const struct array_list *)(const void *)list : NULL;
}

static inline bool value_is_number(struct policy_value v)
{
    return v.kind == POLICY_INT || v.kind == POLICY_UINT || v.kind == POLICY_DOUBLE;
}

static inline bool value_is_text(struct policy_value v, struct str s)
{
    return v.len == s.len && memcmp(v.as.text, s.ptr, s.len) == 0;
}

/* The map when it is a small built-in one, else NULL. */
static inline const struct entry_map *value_small_map(const struct policy_map *map)
{
    const struct entry_map *m = (const struct entry_map *)(const void *)map;
    return map->ops == &entry_map_ops && !m->order ? m : NULL;
}

/* The value under a name in a small map; NULL when it is not there. */
static inline const struct policy_value *value_small_map_find(const struct entry_map *m,
                                                              const char *name, uint32_t len)
{
    const struct policy_entry *end = m->entries + m->count;
    for (const struct policy_entry *entry = m->entries; entry < end; entry++) {
        if (entry->key.len == len && entry->key.kind == POLICY_STRING &&
            str_same_bytes(entry->key.as.text, name, len)) {
            return &entry->value;
        }
    }
    return NULL;
}

/* -1, 0, 1, or 2 when a NaN is among them; exact over all of int, uint and double. */
int value_compare_numbers(struct policy_value a, struct policy_value b);

enum value_order { ORDER_LESS = -1, ORDER_SAME = 0, ORDER_MORE = 1, ORDER_NAN = 2, ORDER_NONE = 3 };

/* The order of `<`: ORDER_NONE for kinds that have none together. */
int value_compare(struct policy_value a, struct policy_value b);

/* CEL's ==: 1, 0, or negative: -POLICY_E_DEPTH, -POLICY_E_INPUT, -POLICY_E_MEMORY,
 * -POLICY_E_COST. *fuel is lowered by the work done. */
int value_equal(struct policy_value a, struct policy_value b, struct arena *arena, int64_t *fuel);

/* Key order of built-in maps: by kind, then value; numbers across kinds. */
int value_compare_keys(struct policy_value a, struct policy_value b);
bool value_is_key(struct policy_value v);

/* Look-up of a constant member name, fast for built-in maps. As policy_map_ops.get. */
int value_map_get_name(const struct policy_map *map, struct policy_value name, struct arena *arena,
                       struct policy_value *ret);

/* A map from the distinct items, all keys, to nothing in particular: for `in` on a constant list.
 * NULL when the arena is full. */
const struct policy_map *value_set_build(struct arena *arena, const struct policy_value *items,
                                         size_t count);

/* Negated POLICY_E_* for a failure that a list or map of the caller reported. */
int value_input_error(int status);

#endif
