#include "policy/decide/policy_set.h"

#include <stdlib.h>

#include "policy/decide/condition.h"
#include "policy/decide/policy_entry.h"

struct program_slot {
    const struct policy_program *program; /* NULL: empty */
    uint64_t hash;
};

struct program_cache {
    const struct policy_env *env;
    struct arena *arena;
    struct program_slot *slots;
    size_t slot_count; /* power of two */
    size_t count;
};

struct policy_set_builder {
    struct policy_set *set;
    struct program_cache cache;
    size_t room; /* of set->policies */
};

/* FNV-1a. The texts are an admin's, so no key is needed against collisions on purpose. */
static uint64_t hash_str(struct str s)
{
    uint64_t h = 14695981039346656037U;
    for (size_t i = 0; i < s.len; i++) {
        h = (h ^ (uint8_t)s.ptr[i]) * 1099511628211U;
    }
    return h ^ (h >> 32);
}

static bool program_cache_grow(struct program_cache *cache)
{
    size_t slot_count = cache->slot_count ? cache->slot_count * 2 : 64;
    struct program_slot *slots = calloc(slot_count, sizeof *slots);
    if (!slots) {
        return false;
    }
    for (size_t i = 0; i < cache->slot_count; i++) {
        if (cache->slots[i].program) {
            size_t at = cache->slots[i].hash & (slot_count - 1);
            while (slots[at].program) {
                at = (at + 1) & (slot_count - 1);
            }
            slots[at] = cache->slots[i];
        }
    }
    free(cache->slots);
    cache->slots = slots;
    cache->slot_count = slot_count;
    return true;
}

int program_cache_get(struct program_cache *cache, struct str text,
                      const struct policy_program **ret, struct error *err)
{
    if (cache->count * 2 >= cache->slot_count && !program_cache_grow(cache)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policy set");
    }
    uint64_t hash = hash_str(text);
    size_t at = hash & (cache->slot_count - 1);
    for (; cache->slots[at].program; at = (at + 1) & (cache->slot_count - 1)) {
        const struct policy_program *p = cache->slots[at].program;
        if (cache->slots[at].hash == hash && str_eq(policy_program_text(p), text)) {
            *ret = p;
            return 0;
        }
    }
    int rc = policy_compile(cache->env, text, cache->arena, ret, err);
    if (rc) {
        return rc;
    }
    cache->slots[at] = (struct program_slot){*ret, hash};
    cache->count++;
    return 0;
}

struct policy_set_builder *policy_set_builder_new(const struct policy_env *env,
                                                  enum policy_set_kind kind, uint64_t version)
{
    struct policy_set_builder *b = calloc(1, sizeof *b);
    struct policy_set *set = calloc(1, sizeof *set);
    if (!b || !set) {
        free(b);
        free(set);
        return NULL;
    }
    set->references = 1;
    set->kind = kind;
    set->version = version;
    arena_init(&set->arena, POLICY_SET_MAX_BYTES);
    b->set = set;
    b->cache = (struct program_cache){.env = env, .arena = &set->arena};
    return b;
}

struct arena *policy_set_builder_arena(struct policy_set_builder *b)
{
    return &b->set->arena;
}

void policy_set_builder_free(struct policy_set_builder *b)
{
    if (b) {
        policy_set_unref(b->set);
        free(b->cache.slots);
        free(b);
    }
}

static bool copy_str(struct arena *arena, struct str s, struct str *ret)
{
    const char *copy = arena_strndup(arena, s.ptr, s.len);
    *ret = str_make(copy, s.len);
    return copy;
}

static const char *segment_problem(struct str segment)
{
    if (segment.len < POLICY_NAME_SEGMENT_MIN_BYTES) {
        return "a segment is shorter than 2 characters";
    }
    if (segment.len > POLICY_NAME_SEGMENT_MAX_BYTES) {
        return "a segment is longer than 40 characters";
    }
    for (size_t i = 0; i < segment.len; i++) {
        char c = segment.ptr[i];
        bool is_letter = c >= 'a' && c <= 'z';
        bool is_digit = c >= '0' && c <= '9';
        if (i == 0 && !is_letter) {
            return "a segment must begin with a lower-case letter";
        }
        if (!is_letter && !is_digit && c != '-') {
            return "only lower-case letters, digits, '-' and the separator '.' are allowed";
        }
        if (c == '-' && (i + 1 == segment.len || segment.ptr[i + 1] == '-')) {
            return "a hyphen must stand alone between letters or digits";
        }
    }
    return NULL;
}

const char *policy_name_problem(struct str name)
{
    if (name.len == 0) {
        return "it is empty";
    }
    if (name.len > POLICY_NAME_MAX_BYTES) {
        return "it is longer than 128 characters";
    }
    unsigned parents = 0;
    struct str rest = name;
    for (;;) {
        const char *dot = memchr(rest.ptr, '.', rest.len);
        struct str segment = str_make(rest.ptr, dot ? (size_t)(dot - rest.ptr) : rest.len);
        const char *problem = segment_problem(segment);
        if (problem || !dot) {
            return problem;
        }
        if (++parents > POLICY_PARENTS_MAX) {
            return "it has more than 5 parents";
        }
        rest = str_make(dot + 1, rest.len - segment.len - 1);
    }
}

bool policy_name_parent(struct str name, struct str *ret)
{
    const char *dot = name.len ? memchr(name.ptr, '.', name.len) : NULL;
    if (!dot) {
        return false;
    }
    *ret = str_make(dot + 1, name.len - (size_t)(dot - name.ptr) - 1);
    return true;
}

static int compile_rules(struct policy_set_builder *b, const struct policy_source *source,
                         struct compiled_rule *rules, struct error *err)
{
    for (size_t i = 0; i < source->rule_count; i++) {
        const struct policy_rule_source *from = &source->rules[i];
        struct compiled_rule *to = &rules[i];
        *to = (struct compiled_rule){
            .effect = from->effect, .priority = from->priority, .index = (uint32_t)i};
        int rc = 0;
        if (from->effect != POLICY_ALLOW && from->effect != POLICY_DENY) {
            rc = error_set(err, STATUS_INVALID_ARGUMENT, "effect: must be ALLOW or DENY");
        } else if (from->priority < POLICY_PRIORITY_MIN || from->priority > POLICY_PRIORITY_MAX) {
            rc = error_set(err, STATUS_INVALID_ARGUMENT,
                           "priority: %d is outside %d to %d (the smallest decides first)",
                           from->priority, POLICY_PRIORITY_MIN, POLICY_PRIORITY_MAX);
        } else if (from->name.len > POLICY_NAME_MAX_BYTES) {
            rc = error_set(err, STATUS_INVALID_ARGUMENT, "name: longer than %d bytes",
                           POLICY_NAME_MAX_BYTES);
        } else if (!copy_str(&b->set->arena, from->name, &to->name)) {
            rc = error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policy set");
        } else {
            rc =
                condition_compile(&b->cache, &b->set->arena, &from->condition, &to->condition, err);
            rc = rc ? error_wrap(err, "condition") : 0;
        }
        if (rc) {
            return from->name.len ? error_wrap(err, "rule #%zu '%.*s'", i, STR_ARG(from->name))
                                  : error_wrap(err, "rule #%zu", i);
        }
    }
    return 0;
}

/* Counting sort by class: stable, so rules of a class stay in the file's order. */
static void sort_rules(const struct compiled_rule *from, size_t count, struct compiled_rule *to,
                       struct compiled_policy *policy)
{
    uint16_t next[RULE_CLASS_COUNT + 1] = {0};
    for (size_t i = 0; i < count; i++) {
        next[rule_class(from[i].priority, from[i].effect) + 1]++;
    }
    for (unsigned c = 0; c < RULE_CLASS_COUNT; c++) {
        next[c + 1] = (uint16_t)(next[c + 1] + next[c]);
        policy->class_start[c + 1] = next[c + 1];
    }
    for (size_t i = 0; i < count; i++) {
        to[next[rule_class(from[i].priority, from[i].effect)]++] = from[i];
    }
    policy->rules = to;
    policy->rule_count = (uint32_t)count;
}

static int compile_enforcement(struct policy_set_builder *b, const struct policy_source *source,
                               struct compiled_policy *policy, struct error *err)
{
    size_t count = source->enforcement_rule_count;
    struct compiled_enforcement *to = arena_calloc(&b->set->arena, count, sizeof *to);
    if (!to) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policy set");
    }
    size_t filled = 0;
    for (enum policy_enforcement want = POLICY_ENFORCE; want <= POLICY_IGNORE; want++) {
        for (size_t i = 0; i < count; i++) {
            const struct policy_enforcement_source *from = &source->enforcement_rules[i];
            int rc = 0;
            if (from->effect != POLICY_ENFORCE && from->effect != POLICY_IGNORE) {
                rc = error_set(err, STATUS_INVALID_ARGUMENT, "effect: must be ENFORCE or IGNORE");
            } else if (from->effect == want) {
                to[filled].effect = want;
                to[filled].index = (uint32_t)i;
                rc = condition_compile(&b->cache, &b->set->arena, &from->condition,
                                       &to[filled++].condition, err);
                rc = rc ? error_wrap(err, "condition") : 0;
            }
            if (rc) {
                return error_wrap(err, "enforcement rule #%zu", i);
            }
        }
    }
    policy->enforcement = to;
    policy->enforcement_count = (uint32_t)filled;
    return 0;
}

static int check_head(const struct policy_set_builder *b, const struct policy_source *source,
                      struct error *err)
{
    const char *problem = NULL;
    if (b->set->kind == POLICY_SET_NAMED) {
        problem = policy_name_problem(source->name);
    } else if (source->name.len > POLICY_NAME_MAX_BYTES) {
        problem = "it is longer than 128 characters";
    }
    if (problem) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "The name is not valid: %s", problem);
    }
    if (source->rule_count > POLICY_RULES_MAX ||
        source->enforcement_rule_count > POLICY_RULES_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%zu rules and %zu enforcement rules, at most %d of each are allowed",
                         source->rule_count, source->enforcement_rule_count, POLICY_RULES_MAX);
    }
    size_t count_max =
        b->set->kind == POLICY_SET_NAMED ? POLICY_SET_POLICIES_MAX : POLICY_ATTACHED_MAX;
    if (b->set->count >= count_max) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "At most %zu policies are allowed here",
                         count_max);
    }
    return 0;
}

static int set_attrs(struct policy_set_builder *b, const struct policy_source *source,
                     struct compiled_policy *policy, struct error *err)
{
    policy->attrs = source->attrs;
    if (source->attrs.kind == POLICY_MAP) {
        return 0;
    }
    if (source->attrs.kind != POLICY_NULL && source->attrs.kind != POLICY_ABSENT) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "attrs: must be an object");
    }
    const struct policy_map *empty;
    if (policy_map_build(&b->set->arena, NULL, 0, &empty)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policy set");
    }
    policy->attrs = policy_map(empty);
    return 0;
}

static int compile_policy(struct policy_set_builder *b, const struct policy_source *source,
                          struct compiled_policy *ret, struct error *err)
{
    int rc = check_head(b, source, err);
    if (rc) {
        return rc;
    }
    struct arena *arena = &b->set->arena;
    *ret =
        (struct compiled_policy){.is_disabled = source->is_disabled, .parent = POLICY_INDEX_NONE};
    struct compiled_rule *rules = arena_calloc(arena, source->rule_count, sizeof *rules);
    struct compiled_rule *sorted = arena_calloc(arena, source->rule_count, sizeof *sorted);
    if (!rules || !sorted || !copy_str(arena, source->name, &ret->name) ||
        !copy_str(arena, source->uid, &ret->uid) ||
        !copy_str(arena, source->resource_version, &ret->resource_version)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policy set");
    }
    rc = set_attrs(b, source, ret, err);
    rc = rc ? rc : compile_rules(b, source, rules, err);
    rc = rc ? rc : compile_enforcement(b, source, ret, err);
    if (rc) {
        return rc;
    }
    sort_rules(rules, source->rule_count, sorted, ret);
    return 0;
}

/* Keeps the table at most half full. */
static bool index_names(struct policy_set *set, size_t count)
{
    if (count * 2 > set->slot_count) {
        size_t slot_count = set->slot_count ? set->slot_count * 2 : 64;
        uint32_t *slots = arena_alloc(&set->arena, slot_count * sizeof *slots);
        if (!slots) {
            return false;
        }
        memset(slots, 0xff, slot_count * sizeof *slots);
        set->slots = slots;
        set->slot_count = slot_count;
        for (size_t i = 0; i < set->count; i++) {
            size_t at = hash_str(set->policies[i].name) & (slot_count - 1);
            while (slots[at] != POLICY_INDEX_NONE) {
                at = (at + 1) & (slot_count - 1);
            }
            slots[at] = (uint32_t)i;
        }
    }
    return true;
}

static bool make_room(struct policy_set_builder *b)
{
    struct policy_set *set = b->set;
    struct compiled_policy *policies =
        arena_grow(&set->arena, set->policies, set->count, &b->room, sizeof *policies, 16);
    if (!policies) {
        return false;
    }
    set->policies = policies;
    return set->kind == POLICY_SET_INLINE || index_names(set, set->count + 1);
}

int policy_set_add(struct policy_set_builder *b, const struct policy_source *policy,
                   struct error *err)
{
    struct policy_set *set = b->set;
    bool is_named = set->kind == POLICY_SET_NAMED;
    const char *what = is_named ? "Policy" : "Inline policy";
    if (!make_room(b)) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policy set");
    }
    if (is_named && policy_set_find(set, policy->name) != POLICY_INDEX_NONE) {
        return error_set(err, STATUS_ALREADY_EXISTS, "Policy '%.*s' is there twice; rename one",
                         STR_ARG(policy->name));
    }
    struct compiled_policy compiled;
    int rc = compile_policy(b, policy, &compiled, err);
    if (rc) {
        return error_wrap(err, "%s '%.*s'", what, STR_ARG(policy->name));
    }
    if (is_named) {
        size_t at = hash_str(compiled.name) & (set->slot_count - 1);
        while (set->slots[at] != POLICY_INDEX_NONE) {
            at = (at + 1) & (set->slot_count - 1);
        }
        set->slots[at] = (uint32_t)set->count;
    }
    set->policies[set->count++] = compiled;
    return 0;
}

int policy_set_finish(struct policy_set_builder *b, struct policy_set **ret, struct error *err)
{
    struct policy_set *set = b->set;
    int rc = 0;
    for (size_t i = 0; set->kind == POLICY_SET_NAMED && i < set->count && !rc; i++) {
        struct compiled_policy *p = &set->policies[i];
        struct str parent;
        if (policy_name_parent(p->name, &parent)) {
            p->parent = policy_set_find(set, parent);
            if (p->parent == POLICY_INDEX_NONE) {
                rc = error_set(err, STATUS_FAILED_PRECONDITION,
                               "Policy '%.*s': its parent '%.*s' does not exist; create it first "
                               "or put it in the same file",
                               STR_ARG(p->name), STR_ARG(parent));
            }
        }
    }
    if (!rc) {
        *ret = policy_set_ref(set);
    }
    policy_set_builder_free(b);
    return rc;
}

uint32_t policy_set_find(const struct policy_set *set, struct str name)
{
    if (set->slot_count == 0) {
        return POLICY_INDEX_NONE;
    }
    size_t at = hash_str(name) & (set->slot_count - 1);
    for (; set->slots[at] != POLICY_INDEX_NONE; at = (at + 1) & (set->slot_count - 1)) {
        if (str_eq(set->policies[set->slots[at]].name, name)) {
            return set->slots[at];
        }
    }
    return POLICY_INDEX_NONE;
}

struct policy_set *policy_set_ref(struct policy_set *set)
{
    if (set) {
        set->references++;
    }
    return set;
}

void policy_set_unref(struct policy_set *set)
{
    if (set && --set->references == 0) {
        arena_free(&set->arena);
        free(set);
    }
}

uint64_t policy_set_version(const struct policy_set *set)
{
    return set->version;
}

size_t policy_set_count(const struct policy_set *set)
{
    return set->count;
}

bool policy_set_has(const struct policy_set *set, struct str name)
{
    return policy_set_find(set, name) != POLICY_INDEX_NONE;
}
