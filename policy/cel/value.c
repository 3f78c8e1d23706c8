#include "policy/cel/value.h"

#include <math.h>
#include <stdlib.h>

static size_t array_list_size(const struct policy_list *self)
{
    return ((const struct array_list *)(const void *)self)->count;
}

static struct policy_value array_list_get(const struct policy_list *self, size_t index,
                                          struct arena *arena)
{
    (void)arena;
    return ((const struct array_list *)(const void *)self)->items[index];
}

const struct policy_list_ops array_list_ops = {array_list_size, array_list_get};

static const struct policy_value nothing;
static const struct policy_entry no_entry;

const struct policy_list *policy_list_build(struct arena *arena, const struct policy_value *items,
                                            size_t count)
{
    struct array_list *list = arena_alloc(arena, sizeof *list);
    if (!list) {
        return NULL;
    }
    /* Never NULL, also for an empty list. */
    *list = (struct array_list){{&array_list_ops}, items ? items : &nothing, count};
    return &list->list;
}

static int compare_int_double(int64_t i, double d)
{
    if (isnan(d)) {
        return ORDER_NAN;
    }
    if (d >= 0x1p63) {
        return ORDER_LESS;
    }
    if (d < -0x1p63) {
        return ORDER_MORE;
    }
    int64_t whole = (int64_t)d;
    if (i != whole) {
        return i < whole ? ORDER_LESS : ORDER_MORE;
    }
    double rest = d - (double)whole;
    return rest > 0 ? ORDER_LESS : rest < 0 ? ORDER_MORE : ORDER_SAME;
}

static int compare_uint_double(uint64_t u, double d)
{
    if (isnan(d)) {
        return ORDER_NAN;
    }
    if (d >= 0x1p64) {
        return ORDER_LESS;
    }
    if (d < 0) {
        return ORDER_MORE;
    }
    uint64_t whole = (uint64_t)d;
    if (u != whole) {
        return u < whole ? ORDER_LESS : ORDER_MORE;
    }
    return d - (double)whole > 0 ? ORDER_LESS : ORDER_SAME;
}

static int compare_doubles(double a, double b)
{
    if (isnan(a) || isnan(b)) {
        return ORDER_NAN;
    }
    return a < b ? ORDER_LESS : a > b ? ORDER_MORE : ORDER_SAME;
}

static int flip(int order)
{
    return order == ORDER_NAN ? order : -order;
}

static int compare_int_to(int64_t i, struct policy_value b)
{
    if (b.kind == POLICY_INT) {
        return (i > b.as.i) - (i < b.as.i);
    }
    if (b.kind == POLICY_UINT) {
        return i < 0 ? ORDER_LESS : ((uint64_t)i > b.as.u) - ((uint64_t)i < b.as.u);
    }
    return compare_int_double(i, b.as.d);
}

int value_compare_numbers(struct policy_value a, struct policy_value b)
{
    if (a.kind == POLICY_INT) {
        return compare_int_to(a.as.i, b);
    }
    if (b.kind == POLICY_INT) {
        return flip(compare_int_to(b.as.i, a));
    }
    if (a.kind == POLICY_UINT) {
        return b.kind == POLICY_UINT ? (a.as.u > b.as.u) - (a.as.u < b.as.u)
                                     : compare_uint_double(a.as.u, b.as.d);
    }
    if (b.kind == POLICY_UINT) {
        return flip(compare_uint_double(b.as.u, a.as.d));
    }
    return compare_doubles(a.as.d, b.as.d);
}

int value_compare(struct policy_value a, struct policy_value b)
{
    if (value_is_number(a) && value_is_number(b)) {
        return value_compare_numbers(a, b);
    }
    if (a.kind != b.kind) {
        return ORDER_NONE;
    }
    int order;
    switch (a.kind) {
    case POLICY_BOOL:
        return (int)a.as.truth - (int)b.as.truth;
    case POLICY_STRING:
    case POLICY_BYTES:
        order = str_cmp(policy_value_str(a), policy_value_str(b));
        return (order > 0) - (order < 0);
    case POLICY_DURATION:
        return (a.as.i > b.as.i) - (a.as.i < b.as.i);
    case POLICY_TIMESTAMP:
        if (a.as.i != b.as.i) {
            return a.as.i < b.as.i ? ORDER_LESS : ORDER_MORE;
        }
        return (a.len > b.len) - (a.len < b.len);
    default:
        return ORDER_NONE;
    }
}

bool value_is_key(struct policy_value v)
{
    return v.kind == POLICY_STRING || v.kind == POLICY_INT || v.kind == POLICY_UINT ||
           v.kind == POLICY_BOOL;
}

static int key_class(struct policy_value v)
{
    return v.kind == POLICY_STRING ? 2 : v.kind == POLICY_BOOL ? 0 : 1;
}

int value_compare_keys(struct policy_value a, struct policy_value b)
{
    int class_a = key_class(a);
    int class_b = key_class(b);
    if (class_a != class_b) {
        return class_a - class_b;
    }
    if (class_a == 1) {
        return value_compare_numbers(a, b);
    }
    if (class_a == 0) {
        return (int)a.as.truth - (int)b.as.truth;
    }
    if (a.len != b.len) {
        return a.len < b.len ? -1 : 1;
    }
    return a.len > 0 ? memcmp(a.as.text, b.as.text, a.len) : 0;
}

static size_t entry_map_size(const struct policy_map *self)
{
    return ((const struct entry_map *)(const void *)self)->count;
}

static const struct policy_entry *find_linear(const struct entry_map *m, struct policy_value key)
{
    for (size_t i = 0; i < m->count; i++) {
        if (value_compare_keys(m->entries[i].key, key) == 0) {
            return &m->entries[i];
        }
    }
    return NULL;
}

static const struct policy_entry *find_sorted(const struct entry_map *m, struct policy_value key)
{
    size_t low = 0;
    size_t high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct policy_entry *entry = &m->entries[m->order[middle]];
        int order = value_compare_keys(entry->key, key);
        if (order == 0) {
            return entry;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

static struct policy_value entry_map_get(const struct policy_map *self, struct policy_value key,
                                         struct arena *arena)
{
    (void)arena;
    const struct entry_map *m = (const struct entry_map *)(const void *)self;
    if (!value_is_key(key) && (key.kind != POLICY_DOUBLE || isnan(key.as.d))) {
        return policy_absent();
    }
    const struct policy_entry *entry = m->order ? find_sorted(m, key) : find_linear(m, key);
    return entry ? entry->value : policy_absent();
}

static int entry_map_next(const struct policy_map *self, size_t *cursor, struct arena *arena,
                          struct policy_value *ret_key, struct policy_value *ret_value)
{
    (void)arena;
    const struct entry_map *m = (const struct entry_map *)(const void *)self;
    if (*cursor >= m->count) {
        return 0;
    }
    *ret_key = m->entries[*cursor].key;
    if (ret_value) {
        *ret_value = m->entries[*cursor].value;
    }
    (*cursor)++;
    return 1;
}

const struct policy_map_ops entry_map_ops = {entry_map_size, entry_map_get, entry_map_next};

int value_map_get_name(const struct policy_map *map, struct policy_value name, struct arena *arena,
                       struct policy_value *ret)
{
    const struct entry_map *small = value_small_map(map);
    if (!small) {
        return policy_map_get(map, name, arena, ret);
    }
    const struct policy_value *v = value_small_map_find(small, name.as.text, name.len);
    if (!v) {
        return 0;
    }
    *ret = *v;
    return 1;
}

/* Heap sort: no recursion, no memory, n log n whatever the keys are. */
static void sift_down(const struct policy_entry *entries, uint32_t *order, size_t root,
                      size_t count)
{
    for (size_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count &&
            value_compare_keys(entries[order[child]].key, entries[order[child + 1]].key) < 0) {
            child++;
        }
        if (value_compare_keys(entries[order[root]].key, entries[order[child]].key) >= 0) {
            return;
        }
        uint32_t swap = order[root];
        order[root] = order[child];
        order[child] = swap;
        root = child;
    }
}

static void sort_order(const struct policy_entry *entries, uint32_t *order, size_t count)
{
    for (size_t i = count / 2; i-- > 0;) {
        sift_down(entries, order, i, count);
    }
    for (size_t end = count; end-- > 1;) {
        uint32_t swap = order[0];
        order[0] = order[end];
        order[end] = swap;
        sift_down(entries, order, 0, end);
    }
}

static int check_small_map(const struct entry_map *m)
{
    for (size_t i = 0; i < m->count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (value_compare_keys(m->entries[i].key, m->entries[k].key) == 0) {
                return -STATUS_INVALID_ARGUMENT;
            }
        }
    }
    return 0;
}

static int index_large_map(struct arena *arena, struct entry_map *m)
{
    uint32_t *order = arena_calloc(arena, m->count, sizeof *order);
    if (!order) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    for (size_t i = 0; i < m->count; i++) {
        order[i] = (uint32_t)i;
    }
    sort_order(m->entries, order, m->count);
    for (size_t i = 1; i < m->count; i++) {
        if (value_compare_keys(m->entries[order[i - 1]].key, m->entries[order[i]].key) == 0) {
            return -STATUS_INVALID_ARGUMENT;
        }
    }
    m->order = order;
    return 0;
}

int policy_map_build(struct arena *arena, const struct policy_entry *entries, size_t count,
                     const struct policy_map **ret_map)
{
    if (count > UINT32_MAX) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    for (size_t i = 0; i < count; i++) {
        if (!value_is_key(entries[i].key)) {
            return -STATUS_INVALID_ARGUMENT;
        }
    }
    struct entry_map *m = arena_alloc(arena, sizeof *m);
    if (!m) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    /* Never NULL, also for an empty map. */
    *m = (struct entry_map){{&entry_map_ops}, entries ? entries : &no_entry, count, NULL};
    int status = count <= MAP_LINEAR_MAX ? check_small_map(m) : index_large_map(arena, m);
    if (status == 0) {
        *ret_map = &m->map;
    }
    return status;
}

const struct policy_map *value_set_build(struct arena *arena, const struct policy_value *items,
                                         size_t count)
{
    struct entry_map *m = arena_alloc(arena, sizeof *m);
    struct policy_entry *entries = arena_calloc(arena, count, sizeof *entries);
    uint32_t *order = arena_calloc(arena, count, sizeof *order);
    if (!m || !entries || !order || count > UINT32_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        entries[i] = (struct policy_entry){items[i], policy_bool(true)};
        order[i] = (uint32_t)i;
    }
    sort_order(entries, order, count);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 ||
            value_compare_keys(entries[order[kept - 1]].key, entries[order[i]].key) != 0) {
            order[kept++] = order[i];
        }
    }
    if (kept <= MAP_LINEAR_MAX) {
        struct policy_entry *few = arena_calloc(arena, kept, sizeof *few);
        for (size_t i = 0; few && i < kept; i++) {
            few[i] = entries[order[i]];
        }
        *m = (struct entry_map){{&entry_map_ops}, few, kept, NULL};
        return few ? &m->map : NULL;
    }
    *m = (struct entry_map){{&entry_map_ops}, entries, kept, order};
    return &m->map;
}

size_t policy_list_size(const struct policy_list *list)
{
    return list->ops->size(list);
}

/* An item of a list is never just absent. */
static int unreadable_status(struct policy_value v)
{
    int status = policy_value_status(v);
    return status ? status : -STATUS_INTERNAL;
}

int policy_list_get(const struct policy_list *list, size_t index, struct arena *arena,
                    struct policy_value *ret)
{
    if (index >= list->ops->size(list)) {
        return -STATUS_OUT_OF_RANGE;
    }
    struct policy_value v = list->ops->get(list, index, arena);
    if (v.kind == POLICY_ABSENT) {
        return unreadable_status(v);
    }
    *ret = v;
    return 0;
}

size_t policy_map_size(const struct policy_map *map)
{
    return map->ops->size(map);
}

int policy_map_get(const struct policy_map *map, struct policy_value key, struct arena *arena,
                   struct policy_value *ret)
{
    struct policy_value v = map->ops->get(map, key, arena);
    if (v.kind == POLICY_ABSENT) {
        return policy_value_status(v);
    }
    *ret = v;
    return 1;
}

int policy_map_next(const struct policy_map *map, size_t *cursor, struct arena *arena,
                    struct policy_value *ret_key, struct policy_value *ret_value)
{
    return map->ops->next(map, cursor, arena, ret_key, ret_value);
}

struct policy_value policy_optional(struct arena *arena, const struct policy_value *value)
{
    struct policy_value v = {.kind = POLICY_OPTIONAL};
    if (value) {
        v.as.inner = arena_memdup(arena, value, sizeof *value);
        if (!v.as.inner) {
            return policy_absent();
        }
    }
    return v;
}

int value_input_error(int status)
{
    return status == -STATUS_RESOURCE_EXHAUSTED ? -POLICY_E_MEMORY : -POLICY_E_INPUT;
}

struct comparison {
    struct arena *arena;
    int64_t *fuel;
};

static int equal_at_depth(struct comparison *cmp, struct policy_value a, struct policy_value b,
                          unsigned depth);

static int equal_lists(struct comparison *cmp, const struct policy_list *a,
                       const struct policy_list *b, unsigned depth)
{
    size_t count = policy_list_size(a);
    if (count != policy_list_size(b)) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        struct policy_value va;
        struct policy_value vb;
        int status = policy_list_get(a, i, cmp->arena, &va);
        status = status ? status : policy_list_get(b, i, cmp->arena, &vb);
        if (status) {
            return value_input_error(status);
        }
        int same = equal_at_depth(cmp, va, vb, depth + 1);
        if (same != 1) {
            return same;
        }
    }
    return 1;
}

static int equal_maps(struct comparison *cmp, const struct policy_map *a,
                      const struct policy_map *b, unsigned depth)
{
    if (policy_map_size(a) != policy_map_size(b)) {
        return 0;
    }
    size_t cursor = 0;
    for (;;) {
        struct policy_value key;
        struct policy_value va;
        struct policy_value vb;
        int more = policy_map_next(a, &cursor, cmp->arena, &key, &va);
        if (more <= 0) {
            return more < 0 ? value_input_error(more) : 1;
        }
        int found = policy_map_get(b, key, cmp->arena, &vb);
        if (found <= 0) {
            return found < 0 ? value_input_error(found) : 0;
        }
        int same = equal_at_depth(cmp, va, vb, depth + 1);
        if (same != 1) {
            return same;
        }
    }
}

static int equal_addresses(struct policy_value a, struct policy_value b)
{
    const struct policy_address *x = a.as.address;
    const struct policy_address *y = b.as.address;
    return x->family == y->family && memcmp(x->bytes, y->bytes, sizeof x->bytes) == 0 &&
           (a.kind == POLICY_IP || x->prefix == y->prefix);
}

static int equal_at_depth(struct comparison *cmp, struct policy_value a, struct policy_value b,
                          unsigned depth)
{
    if (depth > VALUE_DEPTH_MAX) {
        return -POLICY_E_DEPTH;
    }
    if (--*cmp->fuel < 0) {
        return -POLICY_E_COST;
    }
    if (value_is_number(a) && value_is_number(b)) {
        return value_compare_numbers(a, b) == ORDER_SAME;
    }
    if (a.kind != b.kind) {
        return 0;
    }
    switch (a.kind) {
    case POLICY_NULL:
        return 1;
    case POLICY_STRING:
    case POLICY_BYTES:
    case POLICY_TYPE:
        *cmp->fuel -= a.len / 10;
        return str_eq(policy_value_str(a), policy_value_str(b));
    case POLICY_LIST:
        return equal_lists(cmp, a.as.list, b.as.list, depth);
    case POLICY_MAP:
        return equal_maps(cmp, a.as.map, b.as.map, depth);
    case POLICY_OPTIONAL:
        if (!a.as.inner || !b.as.inner) {
            return a.as.inner == b.as.inner;
        }
        return equal_at_depth(cmp, *a.as.inner, *b.as.inner, depth + 1);
    case POLICY_IP:
    case POLICY_CIDR:
        return equal_addresses(a, b);
    default:
        return value_compare(a, b) == ORDER_SAME;
    }
}

int value_equal(struct policy_value a, struct policy_value b, struct arena *arena, int64_t *fuel)
{
    struct comparison cmp = {arena, fuel};
    return equal_at_depth(&cmp, a, b, 0);
}

const char *policy_kind_name(uint8_t kind)
{
    static const char *const names[] = {
        [POLICY_ABSENT] = "absent",
        [POLICY_NULL] = "null_type",
        [POLICY_BOOL] = "bool",
        [POLICY_INT] = "int",
        [POLICY_UINT] = "uint",
        [POLICY_DOUBLE] = "double",
        [POLICY_STRING] = "string",
        [POLICY_BYTES] = "bytes",
        [POLICY_LIST] = "list",
        [POLICY_MAP] = "map",
        [POLICY_TYPE] = "type",
        [POLICY_TIMESTAMP] = "google.protobuf.Timestamp",
        [POLICY_DURATION] = "google.protobuf.Duration",
        [POLICY_OPTIONAL] = "optional_type",
        [POLICY_IP] = "net.IP",
        [POLICY_CIDR] = "net.CIDR",
    };
    return kind < sizeof names / sizeof names[0] ? names[kind] : "absent";
}

const char *policy_error_name(int code)
{
    static const char *const names[POLICY_ERROR_COUNT] = {
        [POLICY_E_NONE] = "none",
        [POLICY_E_UNBOUND] = "unbound",
        [POLICY_E_NO_SUCH_KEY] = "no_such_key",
        [POLICY_E_NO_SUCH_FIELD] = "no_such_field",
        [POLICY_E_INDEX_RANGE] = "index_out_of_range",
        [POLICY_E_NO_SUCH_OVERLOAD] = "no_such_overload",
        [POLICY_E_DIVIDE_BY_ZERO] = "divide_by_zero",
        [POLICY_E_OVERFLOW] = "overflow",
        [POLICY_E_RANGE] = "range",
        [POLICY_E_CONVERSION] = "conversion",
        [POLICY_E_INVALID_ARGUMENT] = "invalid_argument",
        [POLICY_E_DUPLICATE_KEY] = "duplicate_key",
        [POLICY_E_INVALID_REGEX] = "invalid_regex",
        [POLICY_E_INVALID_FORMAT] = "invalid_format",
        [POLICY_E_EMPTY_OPTIONAL] = "empty_optional",
        [POLICY_E_COST] = "cost_exceeded",
        [POLICY_E_ITERATIONS] = "iterations_exceeded",
        [POLICY_E_DEADLINE] = "deadline_exceeded",
        [POLICY_E_DEPTH] = "depth_exceeded",
        [POLICY_E_MEMORY] = "memory_exceeded",
        [POLICY_E_REGEX_LIMIT] = "regex_limit",
        [POLICY_E_INPUT] = "input_failure",
    };
    return code >= 0 && code < POLICY_ERROR_COUNT ? names[code] : "unknown";
}

bool policy_error_is_missing_input(int code)
{
    return code == POLICY_E_NO_SUCH_KEY || code == POLICY_E_NO_SUCH_FIELD;
}

bool policy_error_is_limit(int code)
{
    return code > POLICY_E_LAST_ABSORBED;
}
