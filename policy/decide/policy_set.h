#ifndef DECIDE_POLICY_SET_H
#define DECIDE_POLICY_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"
#include "policy/policy.h"

/* Policies as an admin writes them, and the immutable compiled set that decisions are made
 * from. The model is Octelium's: a policy has rules (ALLOW or DENY, a priority, a tree of
 * conditions whose leaves are CEL texts), enforcement rules that say whether the policy takes
 * part at all, attributes, and a place in a hierarchy of names: `child.parent`. */

enum {
    POLICY_EXPRESSION_MAX_BYTES = 10000,
    POLICY_CONDITION_DEPTH_MAX = 16,
    POLICY_CONDITION_CHILDREN_MAX = 100,
    POLICY_RULES_MAX = 100,    /* of each kind, per policy */
    POLICY_ATTACHED_MAX = 100, /* names, and inline policies, at one attachment point */
    POLICY_NAME_MAX_BYTES = 128,
    POLICY_NAME_SEGMENT_MIN_BYTES = 2,
    POLICY_NAME_SEGMENT_MAX_BYTES = 40,
    POLICY_PARENTS_MAX = 5,
    POLICY_PRIORITY_MIN = -4, /* decides first */
    POLICY_PRIORITY_MAX = 4,
    POLICY_SET_POLICIES_MAX = 100000,
    POLICY_SET_MAX_BYTES = 512 << 20, /* compiled programs of one set */
};

enum policy_condition_kind {
    POLICY_CONDITION_UNSET, /* no form was given: refused */
    POLICY_CONDITION_MATCH_ANY,
    POLICY_CONDITION_MATCH,
    POLICY_CONDITION_NOT,
    POLICY_CONDITION_ALL,
    POLICY_CONDITION_ANY,
    POLICY_CONDITION_NONE,
    POLICY_CONDITION_OPA, /* known, and refused with a text that says so */
};

/* "match", "all" …: the key in a policy file. */
const char *policy_condition_kind_name(enum policy_condition_kind kind);

struct policy_condition_source {
    enum policy_condition_kind kind;
    bool match_any;                           /* MATCH_ANY */
    struct str text;                          /* MATCH, NOT */
    const struct policy_condition_source *of; /* ALL, ANY, NONE */
    size_t of_count;
};

enum policy_effect { POLICY_EFFECT_UNSET, POLICY_ALLOW, POLICY_DENY };
enum policy_enforcement { POLICY_ENFORCEMENT_UNSET, POLICY_ENFORCE, POLICY_IGNORE };

struct policy_rule_source {
    struct str name; /* may be empty: "#3" then */
    enum policy_effect effect;
    int priority;
    struct policy_condition_source condition;
};

struct policy_enforcement_source {
    enum policy_enforcement effect;
    struct policy_condition_source condition;
};

struct policy_source {
    struct str name; /* of an inline policy: any text or none */
    struct str uid;
    struct str resource_version;
    bool is_disabled;
    struct policy_value attrs; /* a map, or null for none; must live as long as the set, see
                                  policy_set_builder_arena() */
    const struct policy_rule_source *rules;
    size_t rule_count;
    const struct policy_enforcement_source *enforcement_rules;
    size_t enforcement_rule_count;
};

/* NULL when `name` is a legal policy name, else what is wrong with it ("a segment is longer
 * than 40 characters"). */
const char *policy_name_problem(struct str name);

struct policy_set;
struct policy_set_builder;

enum policy_set_kind {
    POLICY_SET_NAMED,  /* resources: names are checked, unique, and looked up; parents must be there
                        */
    POLICY_SET_INLINE, /* the inline policies of one attachment point, in their order */
};

/* A builder that compiles against env, which must outlive the set. `version` is reported by each
 * decision. NULL when memory is out. */
struct policy_set_builder *policy_set_builder_new(const struct policy_env *env,
                                                  enum policy_set_kind kind, uint64_t version);

/* Memory that lives as long as the set will: for attributes. */
struct arena *policy_set_builder_arena(struct policy_set_builder *b);

/* Compiles one policy into the set; the source may go away afterwards, except attrs. Texts that
 * were seen before are compiled once.
 *
 * Fails with INVALID_ARGUMENT and a text that names policy, rule, place in the condition, and for
 * CEL the line and column; ALREADY_EXISTS for a name that is there; UNIMPLEMENTED for `opa`;
 * RESOURCE_EXHAUSTED. After a failure the builder is as before, so that the next policy can be
 * tried. */
int policy_set_add(struct policy_set_builder *b, const struct policy_source *policy,
                   struct error *err);

/* Checks that each policy's parent exists and gives the set, with one reference for the caller.
 * The builder is gone in either case. FAILED_PRECONDITION names the first orphan. */
int policy_set_finish(struct policy_set_builder *b, struct policy_set **ret, struct error *err);
void policy_set_builder_free(struct policy_set_builder *b);

/* References may be taken and dropped by any thread. NULL is fine. */
struct policy_set *policy_set_ref(struct policy_set *set);
void policy_set_unref(struct policy_set *set);

uint64_t policy_set_version(const struct policy_set *set);
size_t policy_set_count(const struct policy_set *set);
bool policy_set_has(const struct policy_set *set, struct str name);

#endif
