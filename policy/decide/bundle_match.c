#include "policy/decide/bundle_match.h"

#include <string.h>

#include "policy/cel/value.h"

static bool is_same_path(const struct bundle_path *a, const struct bundle_path *b)
{
    if (a->hash != b->hash || a->count != b->count) {
        return false;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        if (!str_eq(policy_value_str(a->names[i]), policy_value_str(b->names[i]))) {
            return false;
        }
    }
    return true;
}

/* As the evaluator selects: a member of what has none, and a key that is not there, are missing
 * input. An optional on the way, which ctx has no reason to hold, is left to the evaluator. */
static bool read_path(struct bundle_values *values, const struct bundle_path *path,
                      struct bundle_value *ret)
{
    struct policy_value v = values->ctx;
    *ret = (struct bundle_value){.path = path};
    if (v.kind == POLICY_ABSENT) {
        return false;
    }
    for (uint32_t i = 0; i < path->count; i++) {
        int found = 0;
        if (v.kind == POLICY_MAP) {
            found = value_map_get_name(v.as.map, path->names[i], values->arena, &v);
        }
        if (found < 0 || v.kind == POLICY_OPTIONAL) {
            return false;
        }
        if (found == 0) {
            ret->is_missing = true;
            return true;
        }
    }
    ret->value = v;
    ret->text_hash = v.kind == POLICY_STRING ? bundle_text_hash(policy_value_str(v)) : 0;
    return true;
}

/* NULL: it cannot be read. */
static const struct bundle_value *value_at(struct bundle_values *values,
                                           const struct bundle_path *path)
{
    for (size_t i = 0; i < values->count; i++) {
        if (is_same_path(values->items[i].path, path)) {
            return &values->items[i];
        }
    }
    struct bundle_value *v = &values->items[values->count];
    if (values->count == values->room || !read_path(values, path, v)) {
        return NULL;
    }
    values->count++;
    return v;
}

static void set_bits(const struct policy_bundle *b, uint32_t link, uint64_t *bits)
{
    for (; link != BUNDLE_NONE; link = b->links[link].next) {
        bits[b->links[link].rule >> 6] |= 1ULL << (b->links[link].rule & 63);
    }
}

static void set_found(const struct policy_bundle *b, const struct bundle_path *path,
                      enum necessary_kind kind, struct str text, uint64_t text_hash, uint64_t *bits)
{
    uint64_t hash = bundle_slot_hash(path, kind, text_hash);
    size_t at = hash & (b->slot_count - 1);
    for (; b->slots[at].first != BUNDLE_NONE; at = (at + 1) & (b->slot_count - 1)) {
        const struct bundle_slot *slot = &b->slots[at];
        if (slot->hash == hash && slot->kind == kind && &b->paths[slot->path] == path &&
            str_eq(slot->text, text)) {
            set_bits(b, slot->first, bits);
            return;
        }
    }
}

/* The keys that some rule asks for, one by one: a map of the caller may find keys that it does not
 * list. */
static bool match_map(const struct policy_bundle *b, const struct bundle_path *path,
                      const struct policy_map *map, struct arena *arena, uint64_t *bits)
{
    for (uint32_t at = path->keyed; at != BUNDLE_NONE; at = b->slots[at].next_keyed) {
        struct policy_value ignored;
        int found = value_map_get_name(map, policy_string(b->slots[at].text), arena, &ignored);
        if (found < 0) {
            return false;
        }
        if (found == 1) {
            set_bits(b, b->slots[at].first, bits);
        }
    }
    return true;
}

static bool match_list(const struct policy_bundle *b, const struct bundle_path *path,
                       const struct policy_list *list, struct arena *arena, uint64_t *bits)
{
    size_t count = policy_list_size(list);
    if (count > NECESSARY_ITEMS_MAX) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct policy_value item;
        if (policy_list_get(list, i, arena, &item) != 0) {
            return false;
        }
        if (item.kind == POLICY_STRING) {
            struct str text = policy_value_str(item);
            set_found(b, path, NECESSARY_KEY, text, bundle_text_hash(text), bits);
        }
    }
    return true;
}

static bool match_path(const struct policy_bundle *b, const struct bundle_path *path,
                       const struct bundle_value *v, struct arena *arena, uint64_t *bits)
{
    if (v->is_missing) {
        set_bits(b, path->missing, bits);
        return true;
    }
    uint8_t kind = v->value.kind;
    if (kind == POLICY_MAP) {
        return match_map(b, path, v->value.as.map, arena, bits);
    }
    set_bits(b, path->missing_member, bits);
    if (kind == POLICY_LIST && path->has_key) {
        return match_list(b, path, v->value.as.list, arena, bits);
    }
    if (kind == POLICY_STRING && path->has_equal) {
        set_found(b, path, NECESSARY_EQUAL, policy_value_str(v->value), v->text_hash, bits);
    }
    return !path->has_key;
}

bool bundle_match(const struct policy_bundle *bundle, struct bundle_values *values, uint64_t *bits,
                  bool *ret_any)
{
    memcpy(bits, bundle->unguarded, bundle->word_count * sizeof *bits);
    for (uint32_t i = 0; i < bundle->path_count; i++) {
        const struct bundle_path *path = &bundle->paths[i];
        const struct bundle_value *v = value_at(values, path);
        if (!v || !match_path(bundle, path, v, values->arena, bits)) {
            return false;
        }
    }
    uint64_t any = 0;
    for (size_t i = 0; i < bundle->word_count; i++) {
        any |= bits[i];
    }
    *ret_any = any != 0;
    return true;
}
