#include "gateway/authorize/policy_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/authorize/policy_history.h"
#include "gateway/authorize/policy_source_of.h"
#include "gateway/rpc/codec.h"
#include "gateway/state/resource.h"

enum {
    /* Powers of two: owners whose inline policies are kept compiled, and whose policies are kept
     * looked up and indexed. The few owners of many policies are not pushed out by the many owners
     * of few. */
    INLINE_SLOTS = 1024,
    BUNDLE_SLOTS = 4096,
    BUNDLE_LARGE_SLOTS = 256,
    BUNDLE_LARGE_MIN = 8, /* policies at one owner */
    LOAD_ARENA_MAX_BYTES = 512 << 20,
    CONFIG_ARENA_MAX_BYTES = 16 << 20,
    SIGNATURE_SIZE = 128, /* longer names are cut */
};

#define VERSION_SETTING "policy_set_version"

struct policy_snapshot {
    struct policy_set *set;
    struct arena arena; /* of config */
    Core__ClusterConfig *config;
};

struct inline_slot {
    char uid[RESOURCE_UUID_BYTES];
    char resource_version[RESOURCE_UUID_BYTES];
    struct policy_set *set; /* NULL: empty */
};

struct policy_store {
    struct store *store;
    struct policy_env *env;
    struct policy_snapshot *current;
    struct policy_snapshot *staged; /* NULL outside of policy_store_stage() */
    bool is_strict;
    /* Of the change to come, see policy_store_sign(). */
    char author[SIGNATURE_SIZE];
    char reason[SIGNATURE_SIZE];
    int64_t signed_ns;
    struct inline_slot inline_slots[INLINE_SLOTS];
    struct policy_bundle *bundle_slots[BUNDLE_SLOTS]; /* by uid of the owner; NULL: empty */
    struct policy_bundle *bundle_large_slots[BUNDLE_LARGE_SLOTS];
};

int policy_store_new(struct store *store, struct policy_store **ret, struct error *err)
{
    struct policy_store *ps = calloc(1, sizeof *ps);
    if (!ps) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policies");
    }
    ps->store = store;
    ps->env = policy_env_new(POLICY_LIBRARIES_ALL, err);
    if (!ps->env) {
        free(ps);
        return error_wrap(err, "Policy environment");
    }
    *ret = ps;
    return 0;
}

void policy_snapshot_free(struct policy_snapshot *snapshot)
{
    if (snapshot) {
        policy_set_unref(snapshot->set);
        arena_free(&snapshot->arena);
        free(snapshot);
    }
}

/* Bundles keep the set from which they were made, and are of no use after a change. */
static void drop_bundles(struct policy_store *ps)
{
    for (size_t i = 0; i < BUNDLE_SLOTS; i++) {
        policy_bundle_unref(ps->bundle_slots[i]);
        ps->bundle_slots[i] = NULL;
    }
    for (size_t i = 0; i < BUNDLE_LARGE_SLOTS; i++) {
        policy_bundle_unref(ps->bundle_large_slots[i]);
        ps->bundle_large_slots[i] = NULL;
    }
}

void policy_store_free(struct policy_store *ps)
{
    if (ps) {
        drop_bundles(ps);
        for (size_t i = 0; i < INLINE_SLOTS; i++) {
            policy_set_unref(ps->inline_slots[i].set);
        }
        policy_snapshot_free(ps->staged);
        policy_snapshot_free(ps->current);
        policy_env_free(ps->env);
        free(ps);
    }
}

void policy_store_set_strict(struct policy_store *ps, bool is_strict)
{
    ps->is_strict = is_strict;
}

bool policy_store_is_strict(const struct policy_store *ps)
{
    return ps->is_strict;
}

const struct policy_set *policy_store_current(const struct policy_store *ps)
{
    return ps->current ? ps->current->set : NULL;
}

uint64_t policy_store_version(const struct policy_store *ps)
{
    return ps->current ? policy_set_version(ps->current->set) : 0;
}

const Core__ClusterConfig *policy_store_cluster_config(const struct policy_store *ps)
{
    return ps->current ? ps->current->config : NULL;
}

static int add_policies(struct policy_store *ps, struct policy_set_builder *b, struct error *err)
{
    struct arena arena;
    struct arena scratch;
    arena_init(&arena, LOAD_ARENA_MAX_BYTES);
    arena_init(&scratch, LOAD_ARENA_MAX_BYTES);
    struct store_list list;
    struct store_filter filter = {.hidden = STORE_HIDDEN_AND_VISIBLE};
    int rc = store_list_all(ps->store, STORE_POLICY, &filter, &arena, &list, err);
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        const Core__Policy *p = (const Core__Policy *)list.items[i];
        struct policy_source source;
        rc = policy_source_of(resource_name(list.items[i]), p->metadata, p->spec, &scratch,
                              policy_set_builder_arena(b), &source, err);
        rc = rc ? rc : policy_set_add(b, &source, err);
        arena_reset(&scratch);
    }
    arena_free(&scratch);
    arena_free(&arena);
    return rc;
}

int policy_store_check_policy(const struct policy_store *ps, const Core__Policy *policy,
                              struct error *err)
{
    struct policy_set_builder *b = policy_set_builder_new(ps->env, POLICY_SET_NAMED, 0);
    if (!b) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policies");
    }
    struct arena scratch;
    struct policy_source source;
    arena_init(&scratch, LOAD_ARENA_MAX_BYTES);
    int rc = policy_source_of(resource_name(&policy->base), policy->metadata, policy->spec,
                              &scratch, policy_set_builder_arena(b), &source, err);
    rc = rc ? rc : policy_set_add(b, &source, err);
    arena_free(&scratch);
    policy_set_builder_free(b);
    return rc;
}

int policy_complete(struct store *store, Core__Policy *policy, struct arena *arena,
                    struct store_index *ret_index, struct error *err)
{
    const char *dot = strchr(resource_name(&policy->base), '.');
    ProtobufCMessage *parent = NULL;
    *ret_index = (struct store_index){0};
    int rc = dot ? store_get_by_name(store, STORE_POLICY, dot + 1, arena, &parent, err) : 0;
    if (rc == -STATUS_NOT_FOUND || !dot) {
        return 0; /* policy_store_prepare() refuses orphans */
    }
    if (rc) {
        return rc;
    }
    if (!policy->status) {
        policy->status = CODEC_NEW(arena, Core__Policy__Status, core__policy__status);
    }
    Meta__ObjectReference *ref = resource_ref(parent, arena);
    if (!policy->status || !ref) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The request needs too much memory");
    }
    /* Only what stays the same while the parent lives: its version is its own matter. */
    ref->resource_version = (char *)(uintptr_t) "";
    policy->status->parent_policy_ref = ref;
    return 0;
}

static int build_set(struct policy_store *ps, uint64_t version, struct policy_set **ret,
                     struct error *err)
{
    struct policy_set_builder *b = policy_set_builder_new(ps->env, POLICY_SET_NAMED, version);
    if (!b) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policies");
    }
    int rc = add_policies(ps, b, err);
    if (rc) {
        policy_set_builder_free(b);
        return rc;
    }
    return policy_set_finish(b, ret, err);
}

static int load_config(struct policy_store *ps, struct policy_snapshot *s, struct error *err)
{
    struct store_list list;
    struct store_filter filter = {.hidden = STORE_HIDDEN_AND_VISIBLE};
    int rc = store_list_all(ps->store, STORE_CLUSTER_CONFIG, &filter, &s->arena, &list, err);
    if (rc) {
        return rc;
    }
    s->config = list.count > 0 ? (Core__ClusterConfig *)list.items[0]
                               : CODEC_NEW(&s->arena, Core__ClusterConfig, core__cluster_config);
    if (!s->config) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the ClusterConfig");
    }
    return policy_snapshot_check_attachments(ps, s, &s->config->base, err);
}

static int build_snapshot(struct policy_store *ps, uint64_t version, struct policy_snapshot **ret,
                          struct error *err)
{
    struct policy_snapshot *s = calloc(1, sizeof *s);
    if (!s) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policies");
    }
    arena_init(&s->arena, CONFIG_ARENA_MAX_BYTES);
    int rc = build_set(ps, version, &s->set, err);
    rc = rc ? rc : load_config(ps, s, err);
    if (rc) {
        policy_snapshot_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

static int stored_version(struct policy_store *ps, uint64_t *ret, struct error *err)
{
    struct arena arena;
    arena_init(&arena, 4096);
    const char *text;
    int rc = store_setting_get(ps->store, VERSION_SETTING, &arena, &text, err);
    if (rc == -STATUS_NOT_FOUND) {
        *ret = 1;
        rc = 0;
    } else if (rc == 0) {
        *ret = strtoull(text, NULL, 10);
    }
    arena_free(&arena);
    return rc;
}

void policy_store_sign(struct policy_store *ps, const char *user, const char *reason,
                       int64_t wall_ns)
{
    (void)snprintf(ps->author, sizeof ps->author, "%s", user);
    (void)snprintf(ps->reason, sizeof ps->reason, "%s", reason);
    ps->signed_ns = wall_ns;
}

static int record_version(struct policy_store *ps, uint64_t version, struct error *err)
{
    struct policy_history_entry entry = {.version = version,
                                         .created_ns = ps->signed_ns,
                                         .user = ps->author,
                                         .reason = ps->reason[0] ? ps->reason : "start"};
    int rc = policy_history_record(ps->store, &entry, err);
    ps->author[0] = '\0';
    ps->reason[0] = '\0';
    return rc;
}

int policy_store_reload(struct policy_store *ps, struct error *err)
{
    uint64_t version;
    struct policy_snapshot *next;
    int rc = stored_version(ps, &version, err);
    rc = rc ? rc : build_snapshot(ps, version, &next, err);
    if (rc) {
        return rc;
    }
    policy_store_install(ps, next);
    /* A set that was never changed is a version too: one can come back to it. */
    return policy_history_has(ps->store, version) ? 0 : record_version(ps, version, err);
}

int policy_store_prepare(struct policy_store *ps, struct policy_snapshot **ret, struct error *err)
{
    uint64_t version;
    int rc = stored_version(ps, &version, err);
    rc = rc ? rc : build_snapshot(ps, ++version, ret, err);
    if (rc) {
        return rc;
    }
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, version);
    rc = store_setting_put(ps->store, VERSION_SETTING, text, err);
    rc = rc ? rc : record_version(ps, version, err);
    if (rc) {
        policy_snapshot_free(*ret);
        *ret = NULL;
    }
    return rc;
}

int policy_store_stage(struct policy_store *ps, struct error *err)
{
    policy_store_unstage(ps);
    return build_snapshot(ps, 0, &ps->staged, err);
}

void policy_store_unstage(struct policy_store *ps)
{
    policy_snapshot_free(ps->staged);
    ps->staged = NULL;
}

void policy_store_install(struct policy_store *ps, struct policy_snapshot *next)
{
    struct policy_snapshot *old = ps->current;
    drop_bundles(ps);
    ps->current = next;
    policy_snapshot_free(old);
}

struct policy_snapshot *policy_store_exchange(struct policy_store *ps,
                                              struct policy_snapshot *snapshot)
{
    struct policy_snapshot *before = ps->current;
    ps->current = snapshot;
    return before;
}

int policy_store_change(struct policy_store *ps, const struct policy_change *change,
                        struct error *err)
{
    struct policy_snapshot *next = NULL;
    int rc = store_begin(ps->store, err);
    if (rc) {
        return rc;
    }
    rc = change->run(change->arg, err);
    rc = rc ? rc : policy_store_prepare(ps, &next, err);
    rc = rc || !change->approve ? rc : change->approve(change->arg, next, err);
    rc = store_end(ps->store, rc, err);
    if (rc) {
        policy_snapshot_free(next);
        return rc;
    }
    policy_store_install(ps, next);
    return 0;
}

static int build_inline(const struct policy_store *ps, const struct authorization *a,
                        struct policy_set **ret, struct error *err)
{
    struct policy_set_builder *b = policy_set_builder_new(ps->env, POLICY_SET_INLINE, 0);
    if (!b) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for inline policies");
    }
    struct arena scratch;
    arena_init(&scratch, LOAD_ARENA_MAX_BYTES);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < a->inline_policy_count; i++) {
        const Core__InlinePolicy *p = a->inline_policies[i];
        struct policy_source source;
        rc = policy_source_of(p->name, NULL, p->spec, &scratch, policy_set_builder_arena(b),
                              &source, err);
        rc = rc ? rc : policy_set_add(b, &source, err);
        rc = rc ? error_wrap(err, "spec.authorization.inlinePolicies[%zu]", i) : 0;
    }
    arena_free(&scratch);
    if (rc) {
        policy_set_builder_free(b);
        return rc;
    }
    return policy_set_finish(b, ret, err);
}

int policy_snapshot_check_attachments(const struct policy_store *ps,
                                      const struct policy_snapshot *snapshot,
                                      const ProtobufCMessage *resource, struct error *err)
{
    struct authorization a = authorization_of(resource);
    if (a.name_count > POLICY_ATTACHED_MAX || a.inline_policy_count > POLICY_ATTACHED_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "spec.authorization has %zu policies and %zu inline policies, at most %d "
                         "of each are allowed",
                         a.name_count, a.inline_policy_count, POLICY_ATTACHED_MAX);
    }
    for (size_t i = 0; i < a.name_count; i++) {
        if (!snapshot || !policy_set_has(snapshot->set, str_from(a.names[i]))) {
            return error_set(err, STATUS_FAILED_PRECONDITION,
                             "spec.authorization.policies[%zu]: Policy '%.256s' does not exist; "
                             "create it first or put it in the same file",
                             i, a.names[i]);
        }
    }
    if (a.inline_policy_count == 0) {
        return 0;
    }
    struct policy_set *set;
    int rc = build_inline(ps, &a, &set, err);
    if (rc == 0) {
        policy_set_unref(set);
    }
    return rc;
}

int policy_store_check_attachments(const struct policy_store *ps, const ProtobufCMessage *resource,
                                   struct error *err)
{
    return policy_snapshot_check_attachments(ps, ps->staged ? ps->staged : ps->current, resource,
                                             err);
}

/* uids are random, so their bytes spread well enough. */
static size_t slot_of(const char *uid, size_t slot_count)
{
    size_t h = 0;
    for (const char *c = uid; *c; c++) {
        h = h * 31 + (uint8_t)*c;
    }
    return h & (slot_count - 1);
}

/* With a reference for the caller. A resource without uid or version is compiled each time. */
static int inline_set(struct policy_store *ps, const ProtobufCMessage *resource,
                      const struct authorization *a, struct policy_set **ret, struct error *err)
{
    const Meta__Metadata *m = resource_metadata(resource);
    size_t room = RESOURCE_UUID_BYTES;
    bool is_kept = m && m->uid[0] && m->resource_version[0] && strlen(m->uid) < room &&
                   strlen(m->resource_version) < room;
    struct inline_slot *slot = is_kept ? &ps->inline_slots[slot_of(m->uid, INLINE_SLOTS)] : NULL;
    if (slot && slot->set && strcmp(slot->uid, m->uid) == 0 &&
        strcmp(slot->resource_version, m->resource_version) == 0) {
        *ret = policy_set_ref(slot->set);
        return 0;
    }
    int rc = build_inline(ps, a, ret, err);
    if (rc == 0 && slot) {
        policy_set_unref(slot->set);
        slot->set = policy_set_ref(*ret);
        (void)snprintf(slot->uid, room, "%s", m->uid);
        (void)snprintf(slot->resource_version, room, "%s", m->resource_version);
    }
    return rc;
}

/* What the attachment attaches, looked up in the set in force, with a reference for the caller.
 * NULL: it has to be looked up in the decision. */
static struct policy_bundle *bundle_of(struct policy_store *ps, const ProtobufCMessage *resource,
                                       const struct policy_attachment *a)
{
    const Meta__Metadata *m = resource_metadata(resource);
    size_t count = a->name_count + (a->inline_policies ? 1 : 0);
    if (count == 0 || !ps->current || !m || !m->uid[0]) {
        return NULL;
    }
    bool is_large = count >= BUNDLE_LARGE_MIN;
    struct policy_bundle **slot = is_large
                                      ? &ps->bundle_large_slots[slot_of(m->uid, BUNDLE_LARGE_SLOTS)]
                                      : &ps->bundle_slots[slot_of(m->uid, BUNDLE_SLOTS)];
    if (!*slot || !policy_bundle_serves(*slot, ps->current->set, a)) {
        policy_bundle_unref(*slot);
        *slot = policy_bundle_new(ps->current->set, a);
    }
    return policy_bundle_ref(*slot);
}

/* "User alice". This is in the way of every request: no printf. */
static const char *point_of(const char *kind, const char *name, struct arena *arena)
{
    size_t kind_len = strlen(kind);
    size_t name_len = strlen(name);
    char *point = arena_alloc(arena, kind_len + name_len + 2);
    if (point) {
        memcpy(point, kind, kind_len);
        point[kind_len] = name_len ? ' ' : '\0';
        memcpy(point + kind_len + 1, name, name_len);
        point[kind_len + (name_len ? 1 + name_len : 0)] = '\0';
    }
    return point;
}

int policy_store_attachment(struct policy_store *ps, const ProtobufCMessage *resource,
                            struct arena *arena, struct policy_attachment *ret, struct error *err)
{
    struct authorization a = authorization_of(resource);
    const char *name = resource_name(resource);
    const char *point = point_of(resource->descriptor->short_name, name, arena);
    struct str *names = arena_calloc(arena, a.name_count, sizeof *names);
    if (!point || !names) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The request needs too much memory");
    }
    for (size_t i = 0; i < a.name_count; i++) {
        names[i] = str_from(a.names[i]);
    }
    struct policy_set *set = NULL;
    int rc = a.inline_policy_count ? inline_set(ps, resource, &a, &set, err) : 0;
    if (rc) {
        return error_wrap(err, "%s", point);
    }
    *ret = (struct policy_attachment){str_from(point), names, a.name_count, set, NULL};
    ret->bundle = bundle_of(ps, resource, ret);
    return 0;
}

void policy_store_release(struct policy_attachment *attachment)
{
    policy_set_unref((struct policy_set *)(uintptr_t)attachment->inline_policies);
    policy_bundle_unref((struct policy_bundle *)(uintptr_t)attachment->bundle);
    attachment->inline_policies = NULL;
    attachment->bundle = NULL;
}
