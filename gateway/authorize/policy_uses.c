#include "gateway/authorize/policy_uses.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/authorize/policy_source_of.h"
#include "gateway/state/resource.h"

enum { SCAN_ARENA_MAX_BYTES = 512 << 20 };

static bool make_room(struct policy_uses *uses)
{
    struct policy_use *items =
        arena_grow(uses->arena, uses->items, uses->count, &uses->room, sizeof *items, 64);
    uses->items = items ? items : uses->items;
    return items != NULL;
}

static int add(struct policy_uses *uses, const char *policy_name, enum store_kind kind,
               const char *holder_name, struct error *err)
{
    const char *policy = arena_strdup(uses->arena, policy_name);
    const char *holder = arena_strdup(uses->arena, holder_name);
    if (!policy || !holder || !make_room(uses)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policies' holders");
    }
    uses->items[uses->count++] =
        (struct policy_use){.policy_name = policy, .kind = kind, .holder_name = holder};
    return 0;
}

/* "child.parent" → "parent"; NULL when it has none. */
static const char *parent_of(const char *policy_name)
{
    const char *dot = strchr(policy_name, '.');
    return dot ? dot + 1 : NULL;
}

static int add_holder(struct policy_uses *uses, enum store_kind kind,
                      const ProtobufCMessage *holder, struct error *err)
{
    const char *name = resource_name(holder);
    if (kind == STORE_POLICY) {
        const char *parent = parent_of(name);
        return parent ? add(uses, parent, kind, name, err) : 0;
    }
    struct authorization a = authorization_of(holder);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < a.name_count; i++) {
        rc = add(uses, a.names[i], kind, name, err);
    }
    return rc;
}

static int add_kind(struct policy_uses *uses, struct store *store, enum store_kind kind,
                    struct error *err)
{
    struct arena arena;
    struct store_list list = {0};
    struct store_filter filter = {.hidden = STORE_HIDDEN_AND_VISIBLE};
    arena_init(&arena, SCAN_ARENA_MAX_BYTES);
    int rc = store_list_all(store, kind, &filter, &arena, &list, err);
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        rc = add_holder(uses, kind, list.items[i], err);
    }
    arena_free(&arena);
    return rc;
}

static int compare(const void *x, const void *y)
{
    const struct policy_use *a = x;
    const struct policy_use *b = y;
    int by_policy = strcmp(a->policy_name, b->policy_name);
    if (by_policy) {
        return by_policy;
    }
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    return strcmp(a->holder_name, b->holder_name);
}

int policy_uses_read(struct policy_uses *uses, struct store *store, struct arena *arena,
                     struct error *err)
{
    static const enum store_kind kinds[] = {STORE_POLICY, STORE_CLUSTER_CONFIG, STORE_USER,
                                            STORE_GROUP,  STORE_CREDENTIAL,     STORE_SESSION};
    *uses = (struct policy_uses){.arena = arena};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof kinds / sizeof kinds[0]; i++) {
        rc = add_kind(uses, store, kinds[i], err);
    }
    if (rc == 0 && uses->count > 0) {
        qsort(uses->items, uses->count, sizeof *uses->items, compare);
    }
    return rc;
}

/* Index of the first use of a policy, or where it would be. */
static size_t first_of(const struct policy_uses *uses, const char *policy_name)
{
    size_t low = 0;
    size_t high = uses->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(uses->items[middle].policy_name, policy_name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_of(const struct policy_uses *uses, size_t i, const char *policy_name)
{
    return i < uses->count && strcmp(uses->items[i].policy_name, policy_name) == 0;
}

int policy_uses_check_none(const struct policy_uses *uses, const char *policy_name,
                           struct error *err)
{
    for (size_t i = first_of(uses, policy_name); is_of(uses, i, policy_name); i++) {
        const struct policy_use *use = &uses->items[i];
        if (use->is_over) {
            continue;
        }
        if (use->kind == STORE_POLICY) {
            return error_set(err, STATUS_FAILED_PRECONDITION,
                             "Policy '%s' has the child '%s'; delete that first", policy_name,
                             use->holder_name);
        }
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "Policy '%s' is attached to %s '%s'; detach it there first", policy_name,
                         store_kind_info(use->kind)->kind, use->holder_name);
    }
    return 0;
}

void policy_uses_forget(struct policy_uses *uses, const char *policy_name)
{
    const char *parent = parent_of(policy_name);
    size_t i = parent ? first_of(uses, parent) : uses->count;
    for (; parent && is_of(uses, i, parent); i++) {
        bool is_child = uses->items[i].kind == STORE_POLICY &&
                        strcmp(uses->items[i].holder_name, policy_name) == 0;
        uses->items[i].is_over |= is_child;
    }
}
