#ifndef DECIDE_CONDITION_H
#define DECIDE_CONDITION_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/decide/decide.h"
#include "policy/decide/policy_set.h"
#include "policy/policy.h"

/* A condition in compiled form, internal to policy/decide: a tree at most
 * POLICY_CONDITION_DEPTH_MAX deep whose leaves are programs. */
struct condition {
    enum policy_condition_kind kind;
    bool match_any;
    const struct policy_program *program; /* leaves; NULL for an empty text */
    struct str text;
    const struct condition *children;
    size_t child_count;
};

/* Gives the program of a text, compiled or met before. */
struct program_cache;
int program_cache_get(struct program_cache *cache, struct str text,
                      const struct policy_program **ret, struct error *err);

/* Compiles; the tree lives in arena. err names the place: "all.of[1].match: ...". */
int condition_compile(struct program_cache *cache, struct arena *arena,
                      const struct policy_condition_source *source, struct condition *ret,
                      struct error *err);

/* What the evaluation of one condition needs and leaves behind. */
struct condition_run {
    struct policy_input input;
    struct arena *scratch;           /* emptied after each expression */
    bool has_missing;                /* out: some leaf lacked its input */
    bool has_missing_under_negation; /* out: one below `not` or `none` */
    int error_code;                  /* out, when the result is CONDITION_ERROR */
    struct error error;
    void (*trace)(struct condition_run *run, const struct condition *c, unsigned depth,
                  enum policy_rule_result result);
    void *trace_context;
};

enum condition_result { CONDITION_FALSE, CONDITION_TRUE, CONDITION_ERROR };

enum condition_result condition_eval(const struct condition *c, struct condition_run *run);

#endif
