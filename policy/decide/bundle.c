#include "policy/decide/bundle.h"

#include <stdlib.h>
#include <string.h>

#include "policy/decide/bundle_match.h"

/* Conjuncts of a rule's condition, in order, out of one expression after the other. */
struct conjunct {
    struct necessary n;
    bool is_whole; /* its expression is nothing but such conjuncts */
    size_t end;    /* of its expression, in guard.read */
    uint64_t hash; /* of its path */
};

/* What a rule can be indexed by, and what is chosen. */
struct guard {
    struct conjunct read[BUNDLE_PATHS_MAX];
    size_t read_count;
    const struct conjunct *chosen; /* NULL: the rule is always asked */
};

/* How many rules look for a text at a path, about: counted by hash. */
struct tally {
    uint32_t *counts;
    size_t count; /* power of two */
};

uint64_t bundle_text_hash(struct str text)
{
    uint64_t h = text.len * 0x9E3779B97F4A7C15U;
    size_t i = 0;
    for (; text.len - i >= 8; i += 8) {
        uint64_t word;
        memcpy(&word, text.ptr + i, 8);
        h = (h ^ word) * 0xBF58476D1CE4E5B9U;
        h ^= h >> 31;
    }
    uint64_t rest = 0;
    if (i < text.len) {
        memcpy(&rest, text.ptr + i, text.len - i);
    }
    h = (h ^ rest) * 0x94D049BB133111EBU;
    return h ^ (h >> 32);
}

static uint64_t path_hash(const struct necessary *n)
{
    uint64_t h = n->path_count;
    for (uint32_t i = 0; i < n->path_count; i++) {
        h = (h ^ bundle_text_hash(policy_value_str(n->path[i]))) * 0x9E3779B97F4A7C15U;
        h ^= h >> 32;
    }
    return h;
}

static bool add_policy(struct policy_bundle *b, const struct compiled_policy *policy,
                       uint32_t index)
{
    if (policy->is_disabled) {
        return true;
    }
    if (policy->enforcement_count > 0) {
        b->events[b->event_count++] = (struct bundle_event){.policy = (uint32_t)b->policy_count};
    }
    b->rule_count += policy->rule_count;
    b->policies[b->policy_count++] = (struct bundle_policy){policy, index};
    return b->rule_count < BUNDLE_NONE;
}

/* The policy and its parents; false when there is none of that name. */
static bool add_named(struct policy_bundle *b, struct str name)
{
    uint32_t at = policy_set_find(b->set, name);
    bool found = at != POLICY_INDEX_NONE;
    for (; at != POLICY_INDEX_NONE; at = b->set->policies[at].parent) {
        if (!bundle_holds(b, at)) {
            b->holds[at >> 3] |= (uint8_t)(1u << (at & 7));
            (void)add_policy(b, &b->set->policies[at], at);
        }
    }
    return found;
}

static bool copy_names(struct policy_bundle *b, const struct policy_attachment *a)
{
    b->names = arena_calloc(&b->arena, a->name_count, sizeof *b->names);
    for (size_t i = 0; b->names && i < a->name_count; i++) {
        const char *copy = arena_strndup(&b->arena, a->names[i].ptr, a->names[i].len);
        if (!copy) {
            return false;
        }
        b->names[i] = str_make(copy, a->names[i].len);
    }
    b->name_count = a->name_count;
    return b->names;
}

static bool collect(struct policy_bundle *b)
{
    size_t inline_count = b->inline_policies ? b->inline_policies->count : 0;
    size_t named_max = b->name_count * (POLICY_PARENTS_MAX + 1);
    size_t room = inline_count + (named_max < b->set->count ? named_max : b->set->count);
    b->policies = arena_calloc(&b->arena, room, sizeof *b->policies);
    b->events = arena_calloc(&b->arena, room + 1, sizeof *b->events);
    b->holds = arena_zalloc(&b->arena, b->set->count / 8 + 1);
    if (!b->policies || !b->events || !b->holds) {
        return false;
    }
    for (size_t i = 0; i < b->name_count; i++) {
        if (!add_named(b, b->names[i])) {
            /* The decision ends there. */
            b->events[b->event_count++] = (struct bundle_event){BUNDLE_NONE, b->names[i]};
            return true;
        }
    }
    for (size_t i = 0; i < inline_count; i++) {
        (void)add_policy(b, &b->inline_policies->policies[i], POLICY_INDEX_NONE);
    }
    return b->rule_count < BUNDLE_NONE;
}

static bool order_rules(struct policy_bundle *b)
{
    b->rules = arena_calloc(&b->arena, b->rule_count, sizeof *b->rules);
    b->word_count = (b->rule_count + 63) / 64;
    b->unguarded = arena_calloc(&b->arena, b->word_count, sizeof *b->unguarded);
    if (!b->rules || !b->unguarded) {
        return false;
    }
    uint32_t filled = 0;
    for (unsigned c = 0; c < RULE_CLASS_COUNT; c++) {
        b->class_start[c] = filled;
        for (size_t i = 0; i < b->policy_count; i++) {
            const struct compiled_policy *p = b->policies[i].policy;
            for (unsigned k = p->class_start[c]; k < p->class_start[c + 1]; k++) {
                b->rules[filled++] = (struct bundle_rule){&p->rules[k], (uint32_t)i};
            }
        }
    }
    b->class_start[RULE_CLASS_COUNT] = filled;
    return true;
}

/* Takes the conjuncts of one expression; true when it is nothing else, so that what comes after it
 * can be looked at too. */
static bool read_match(struct arena *scratch, const struct condition *c, struct policy_value attrs,
                       struct guard *guard)
{
    struct necessary found[NECESSARY_CONJUNCTS_MAX];
    bool is_whole;
    size_t count = program_necessary(c->program, attrs, scratch, found, &is_whole);
    if (count == 0 || count > BUNDLE_PATHS_MAX - guard->read_count) {
        return false;
    }
    size_t end = guard->read_count + count;
    for (size_t i = 0; i < count; i++) {
        guard->read[guard->read_count++] =
            (struct conjunct){found[i], is_whole, end, path_hash(&found[i])};
    }
    return is_whole;
}

static bool read_condition(struct arena *scratch, const struct condition *c,
                           struct policy_value attrs, struct guard *guard)
{
    if (c->kind == POLICY_CONDITION_MATCH) {
        return read_match(scratch, c, attrs, guard);
    }
    if (c->kind != POLICY_CONDITION_ALL) {
        return c->kind == POLICY_CONDITION_MATCH_ANY && c->match_any;
    }
    for (size_t i = 0; i < c->child_count; i++) {
        if (!read_condition(scratch, &c->children[i], attrs, guard)) {
            return false;
        }
    }
    return true;
}

static uint32_t *tally_at(const struct tally *tally, const struct conjunct *c, size_t text)
{
    struct bundle_path path = {.hash = c->hash};
    uint64_t text_hash = bundle_text_hash(policy_value_str(c->n.texts[text]));
    return &tally->counts[bundle_slot_hash(&path, c->n.kind, text_hash) & (tally->count - 1)];
}

/* The rarest condition of each rule: what many rules look for, many requests have. An equality is
 * taken for rarer than a presence. */
static void choose(struct guard *guard, const struct tally *tally)
{
    uint64_t best = UINT64_MAX;
    for (size_t i = 0; i < guard->read_count; i++) {
        const struct conjunct *c = &guard->read[i];
        uint64_t sum = 0;
        for (size_t k = 0; k < c->n.text_count; k++) {
            sum += *tally_at(tally, c, k);
        }
        sum = 2 * sum + (c->n.kind == NECESSARY_EQUAL ? 0 : 1);
        if (sum < best) {
            best = sum;
            guard->chosen = c;
        }
    }
}

static bool choose_all(struct guard *guards, size_t guard_count, struct arena *scratch)
{
    struct tally tally = {.count = 64};
    while (tally.count < 8 * guard_count) {
        tally.count *= 2;
    }
    tally.counts = arena_calloc(scratch, tally.count, sizeof *tally.counts);
    for (size_t i = 0; tally.counts && i < guard_count; i++) {
        for (size_t k = 0; k < guards[i].read_count; k++) {
            for (size_t t = 0; t < guards[i].read[k].n.text_count; t++) {
                ++*tally_at(&tally, &guards[i].read[k], t);
            }
        }
    }
    for (size_t i = 0; tally.counts && i < guard_count; i++) {
        choose(&guards[i], &tally);
    }
    return tally.counts;
}

/* BUNDLE_NONE: there is no room for one more. */
static uint32_t path_index(struct policy_bundle *b, const struct conjunct *c)
{
    const struct necessary *n = &c->n;
    for (uint32_t i = 0; i < b->path_count; i++) {
        const struct bundle_path *p = &b->paths[i];
        bool is_same = p->hash == c->hash && p->count == n->path_count;
        for (uint32_t k = 0; is_same && k < p->count; k++) {
            is_same = str_eq(policy_value_str(p->names[k]), policy_value_str(n->path[k]));
        }
        if (is_same) {
            return i;
        }
    }
    if (b->path_count == BUNDLE_PATHS_MAX) {
        return BUNDLE_NONE;
    }
    b->paths[b->path_count] = (struct bundle_path){.names = n->path,
                                                   .count = n->path_count,
                                                   .keyed = BUNDLE_NONE,
                                                   .missing = BUNDLE_NONE,
                                                   .missing_member = BUNDLE_NONE,
                                                   .hash = c->hash};
    return b->path_count++;
}

static void add_link(struct policy_bundle *b, uint32_t *list, uint32_t rule)
{
    b->links[b->link_count] = (struct bundle_link){rule, *list};
    *list = (uint32_t)b->link_count++;
}

/* False: out of memory. */
static bool add_slot(struct policy_bundle *b, uint32_t path_at, enum necessary_kind kind,
                     struct str text, uint32_t rule)
{
    struct bundle_path *path = &b->paths[path_at];
    uint64_t hash = bundle_slot_hash(path, kind, bundle_text_hash(text));
    size_t at = hash & (b->slot_count - 1);
    for (; b->slots[at].first != BUNDLE_NONE; at = (at + 1) & (b->slot_count - 1)) {
        struct bundle_slot *slot = &b->slots[at];
        if (slot->hash == hash && slot->kind == kind && slot->path == path_at &&
            str_eq(slot->text, text)) {
            add_link(b, &slot->first, rule);
            return true;
        }
    }
    struct bundle_slot *slot = &b->slots[at];
    const char *copy = arena_memdup(&b->arena, text.ptr, text.len);
    if (!copy) {
        return false;
    }
    text.ptr = copy;
    *slot = (struct bundle_slot){text, hash, path_at, BUNDLE_NONE, BUNDLE_NONE, (uint8_t)kind};
    add_link(b, &slot->first, rule);
    if (kind != NECESSARY_EQUAL) {
        slot->next_keyed = path->keyed;
        path->keyed = (uint32_t)at;
    }
    return true;
}

/* A path for each conjunct that the chosen one stands on. False when there are too many. */
static bool add_paths(struct policy_bundle *b, const struct guard *guard)
{
    for (size_t i = 0; i < guard->chosen->end; i++) {
        const struct conjunct *c = &guard->read[i];
        uint32_t at = path_index(b, c);
        if (at == BUNDLE_NONE) {
            return false;
        }
        b->paths[at].has_key |= c->n.kind == NECESSARY_KEY;
        b->paths[at].has_equal |= c->n.kind == NECESSARY_EQUAL;
    }
    return true;
}

static bool index_rule(struct policy_bundle *b, uint32_t rule, const struct guard *guard)
{
    const struct conjunct *c = guard->chosen;
    if (!c || !add_paths(b, guard)) {
        b->unguarded[rule >> 6] |= 1ULL << (rule & 63);
        return true;
    }
    uint32_t path = path_index(b, c);
    for (uint32_t i = 0; i < c->n.text_count; i++) {
        if (!add_slot(b, path, c->n.kind, policy_value_str(c->n.texts[i]), rule)) {
            return false;
        }
    }
    if (!c->is_whole) {
        add_link(b, &b->paths[path].missing, rule);
        if (c->n.kind == NECESSARY_MEMBER) {
            add_link(b, &b->paths[path].missing_member, rule);
        }
    }
    return true;
}

static bool make_tables(struct policy_bundle *b, size_t text_count)
{
    b->slot_count = 8;
    while (b->slot_count < 2 * text_count) {
        b->slot_count *= 2;
    }
    b->links = arena_calloc(&b->arena, text_count + 2 * b->rule_count, sizeof *b->links);
    b->slots = arena_calloc(&b->arena, b->slot_count, sizeof *b->slots);
    if (!b->links || !b->slots || b->slot_count >= BUNDLE_NONE) {
        return false;
    }
    for (size_t i = 0; i < b->slot_count; i++) {
        b->slots[i].first = BUNDLE_NONE;
    }
    return true;
}

static bool index_rules(struct policy_bundle *b)
{
    struct arena scratch;
    arena_init(&scratch, POLICY_SET_MAX_BYTES);
    struct guard *guards = arena_calloc(&scratch, b->rule_count, sizeof *guards);
    size_t text_count = 0;
    for (size_t i = 0; guards && i < b->rule_count; i++) {
        const struct bundle_rule *r = &b->rules[i];
        (void)read_condition(&scratch, &r->rule->condition, b->policies[r->policy].policy->attrs,
                             &guards[i]);
    }
    bool ok = guards && choose_all(guards, b->rule_count, &scratch);
    for (size_t i = 0; ok && i < b->rule_count; i++) {
        text_count += guards[i].chosen ? guards[i].chosen->n.text_count : 0;
    }
    ok = ok && make_tables(b, text_count);
    for (size_t i = 0; ok && i < b->rule_count; i++) {
        ok = index_rule(b, (uint32_t)i, &guards[i]);
    }
    arena_free(&scratch);
    return ok;
}

struct policy_bundle *policy_bundle_new(struct policy_set *set,
                                        const struct policy_attachment *attachment)
{
    struct policy_bundle *b = calloc(1, sizeof *b);
    if (!b) {
        return NULL;
    }
    b->references = 1;
    b->set = policy_set_ref(set);
    b->inline_policies =
        policy_set_ref((struct policy_set *)(uintptr_t)attachment->inline_policies);
    arena_init(&b->arena, POLICY_SET_MAX_BYTES);
    if (!copy_names(b, attachment) || !collect(b) || !order_rules(b) || !index_rules(b)) {
        policy_bundle_unref(b);
        return NULL;
    }
    return b;
}

struct policy_bundle *policy_bundle_ref(struct policy_bundle *bundle)
{
    if (bundle) {
        bundle->references++;
    }
    return bundle;
}

void policy_bundle_unref(struct policy_bundle *bundle)
{
    if (bundle && --bundle->references == 0) {
        arena_free(&bundle->arena);
        policy_set_unref(bundle->inline_policies);
        policy_set_unref(bundle->set);
        free(bundle);
    }
}

bool policy_bundle_serves(const struct policy_bundle *bundle, const struct policy_set *set,
                          const struct policy_attachment *attachment)
{
    bool same = bundle->set == set && bundle->inline_policies == attachment->inline_policies &&
                bundle->name_count == attachment->name_count;
    for (size_t i = 0; same && i < bundle->name_count; i++) {
        same = str_eq(bundle->names[i], attachment->names[i]);
    }
    return same;
}

const struct policy_set *policy_bundle_set(const struct policy_bundle *bundle)
{
    return bundle->set;
}
