#ifndef DECIDE_POLICY_ENTRY_H
#define DECIDE_POLICY_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/str.h"
#include "policy/decide/condition.h"
#include "policy/decide/policy_set.h"
#include "policy/policy.h"

/* A policy in compiled form, internal to policy/decide. */

/* Rules of one priority and effect, in the order in which they are asked: priority upwards,
 * DENY before ALLOW. */
enum {
    RULE_CLASS_COUNT = 2 * (POLICY_PRIORITY_MAX - POLICY_PRIORITY_MIN + 1),
    POLICY_INDEX_NONE = UINT32_MAX,
};

static inline unsigned rule_class(int priority, enum policy_effect effect)
{
    return 2 * (unsigned)(priority - POLICY_PRIORITY_MIN) + (effect == POLICY_ALLOW ? 1 : 0);
}

struct compiled_rule {
    struct condition condition;
    struct str name;
    enum policy_effect effect;
    int priority;
    uint32_t index; /* in the policy file */
};

struct compiled_enforcement {
    struct condition condition;
    enum policy_enforcement effect;
    uint32_t index;
};

struct compiled_policy {
    struct str name;
    struct str uid;
    struct str resource_version;
    bool is_disabled;
    struct policy_value attrs;
    uint32_t parent;                                /* index in the set, or POLICY_INDEX_NONE */
    const struct compiled_rule *rules;              /* sorted by class, then by index */
    const struct compiled_enforcement *enforcement; /* ENFORCE first, then by index */
    uint32_t rule_count;
    uint32_t enforcement_count;
    uint16_t class_start[RULE_CLASS_COUNT + 1]; /* rules of class c: [start c, start c + 1) */
};

struct policy_set {
    _Atomic unsigned references;
    enum policy_set_kind kind;
    uint64_t version;
    struct arena arena; /* everything below */
    struct compiled_policy *policies;
    size_t count;
    uint32_t *slots;   /* hash table of names → index, POLICY_INDEX_NONE in empty ones */
    size_t slot_count; /* power of two, 0 for inline sets */
};

/* POLICY_INDEX_NONE when there is no such policy. */
uint32_t policy_set_find(const struct policy_set *set, struct str name);

/* "child.parent" → "parent"; false at the top. */
bool policy_name_parent(struct str name, struct str *ret);

#endif
