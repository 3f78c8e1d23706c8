#ifndef DECIDE_BUNDLE_MATCH_H
#define DECIDE_BUNDLE_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/cel/necessary.h"
#include "policy/decide/bundle.h"
#include "policy/decide/decide.h"
#include "policy/decide/policy_entry.h"

/* A bundle's inside, internal to policy/decide, and the choice of rules for one request.
 *
 * Why leaving out a rule changes nothing. A rule has at most one guard: a conjunct of its condition
 * out of program_necessary(), taken from a `match`, or from one inside `all`. All that is evaluated
 * before the guard are conjuncts of the same kind, for expressions before its own consist of
 * nothing else ("whole"). bundle_match() reads the paths of all these, and when one cannot be read,
 * holds a value on which a conjunct would fail, or takes much memory, it gives up and all rules are
 * asked. So each of these conjuncts is true, false, or lacks input, and none reaches a limit. Then
 *   - the guard is false: its expression is false, since false && x is false whatever x is, also an
 *     error before it; nothing after it is evaluated. A `match` that is false makes `all` false.
 *   - the guard lacks input: its expression is false or lacks input when it is whole, and either
 *     means that the rule does not match. When it is not whole, what follows may fail in another
 *     way: the rule is asked.
 * Strict mode tells "lacks input" from "false", and a trace shows all rules: both ask all rules. So
 * does a decision that is late already. One that would have become late while it asked rules that
 * cannot match is made in time. */

enum {
    BUNDLE_PATHS_MAX = 32,
    BUNDLE_NONE = UINT32_MAX,
    BUNDLE_VALUES_MAX_BYTES = POLICY_EXPRESSION_MEMORY_MAX_BYTES / 32, /* of all paths read */
};

struct bundle_policy {
    const struct compiled_policy *policy;
    uint32_t index; /* in the set; POLICY_INDEX_NONE: inline */
};

struct bundle_rule {
    const struct compiled_rule *rule;
    uint32_t policy; /* index in the bundle */
};

/* What has to happen while policies are collected, in order. */
struct bundle_event {
    uint32_t policy;    /* index in the bundle of one with enforcement rules; BUNDLE_NONE: */
    struct str missing; /* a name that does not exist, where the decision ends */
};

/* A list of rules, by their place in the order. */
struct bundle_link {
    uint32_t rule;
    uint32_t next;
};

/* Rules whose guard is met by a text, at a path. */
struct bundle_slot {
    struct str text;
    uint64_t hash; /* bundle_slot_hash() */
    uint32_t path;
    uint32_t first;      /* link; BUNDLE_NONE: the slot is empty */
    uint32_t next_keyed; /* the next slot of this path that is KEY or MEMBER */
    uint8_t kind;        /* enum necessary_kind */
};

struct bundle_path {
    const struct policy_value *names;
    uint32_t count;
    uint32_t keyed;   /* first slot with KEY or MEMBER */
    uint32_t missing; /* link: rules to ask when the path leads nowhere */
    uint32_t
        missing_member; /* link: those to ask, too, when it leads to something without members */
    bool has_equal;
    bool has_key;
    uint64_t hash;
};

struct policy_bundle {
    _Atomic unsigned references;
    struct policy_set *set;
    struct policy_set *inline_policies;
    struct arena arena; /* everything below */
    struct str *names;  /* as they were attached */
    size_t name_count;
    struct bundle_policy *policies;
    struct bundle_event *events;
    struct bundle_rule *rules; /* by class, then by policy, then by index */
    struct bundle_link *links;
    struct bundle_slot *slots;
    uint64_t *unguarded; /* bit per rule */
    uint8_t *holds;      /* bit per policy of the set */
    size_t policy_count;
    size_t event_count;
    size_t rule_count;
    size_t link_count;
    size_t slot_count; /* power of two */
    size_t word_count; /* of a bit per rule */
    uint32_t path_count;
    uint32_t class_start[RULE_CLASS_COUNT + 1];
    struct bundle_path paths[BUNDLE_PATHS_MAX];
};

uint64_t bundle_text_hash(struct str text);

static inline uint64_t bundle_slot_hash(const struct bundle_path *path, enum necessary_kind kind,
                                        uint64_t text_hash)
{
    uint64_t h = (text_hash ^ path->hash ^ (uint64_t)kind) * 0x9E3779B97F4A7C15U;
    return h ^ (h >> 29);
}

static inline bool bundle_holds(const struct policy_bundle *b, uint32_t index)
{
    return b->holds[index >> 3] & (1u << (index & 7));
}

/* Paths that were read for a decision; several bundles look at the same ones. */
struct bundle_value {
    const struct bundle_path *path;
    bool is_missing;
    uint64_t text_hash; /* of a string */
    struct policy_value value;
};

struct bundle_values {
    struct arena *arena; /* BUNDLE_VALUES_MAX_BYTES at most */
    struct policy_value ctx;
    struct bundle_value *items;
    size_t count;
    size_t room; /* the sum of path_count will do */
};

/* Sets the bits of the rules that have to be asked, in word_count words at `bits`, and *ret_any
 * when there are some. False: it cannot be told, ask all rules. */
bool bundle_match(const struct policy_bundle *bundle, struct bundle_values *values, uint64_t *bits,
                  bool *ret_any);

#endif
