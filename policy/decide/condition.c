#include "policy/decide/condition.h"

#include <inttypes.h>

const char *policy_condition_kind_name(enum policy_condition_kind kind)
{
    switch (kind) {
    case POLICY_CONDITION_MATCH_ANY:
        return "matchAny";
    case POLICY_CONDITION_MATCH:
        return "match";
    case POLICY_CONDITION_NOT:
        return "not";
    case POLICY_CONDITION_ALL:
        return "all";
    case POLICY_CONDITION_ANY:
        return "any";
    case POLICY_CONDITION_NONE:
        return "none";
    case POLICY_CONDITION_OPA:
        return "opa";
    case POLICY_CONDITION_UNSET:
        break;
    }
    return "unset";
}

static int compile_at_depth(struct program_cache *cache, struct arena *arena,
                            const struct policy_condition_source *source, unsigned depth,
                            struct condition *ret, struct error *err);

static int compile_leaf(struct program_cache *cache, struct arena *arena,
                        const struct policy_condition_source *source, struct condition *ret,
                        struct error *err)
{
    const char *kind = policy_condition_kind_name(source->kind);
    if (source->text.len == 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s: the expression is empty and would never match; write a CEL "
                         "expression (in quotes when it starts with '!')",
                         kind);
    }
    if (source->text.len > POLICY_EXPRESSION_MAX_BYTES) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s: the expression has %zu bytes, at most %d are allowed; split it over "
                         "several conditions",
                         kind, source->text.len, POLICY_EXPRESSION_MAX_BYTES);
    }
    int rc = program_cache_get(cache, source->text, &ret->program, err);
    if (rc) {
        return error_wrap(err, "%s", kind);
    }
    if (!policy_program_may_be_bool(ret->program)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s: the expression gives %s, and a condition must give bool", kind,
                         policy_program_type(ret->program));
    }
    const char *copy = arena_strndup(arena, source->text.ptr, source->text.len);
    if (!copy) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policy set");
    }
    ret->text = str_make(copy, source->text.len);
    return 0;
}

static int compile_children(struct program_cache *cache, struct arena *arena,
                            const struct policy_condition_source *source, unsigned depth,
                            struct condition *ret, struct error *err)
{
    const char *kind = policy_condition_kind_name(source->kind);
    if (source->of_count == 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s.of: the list is empty and would never match; add conditions or "
                         "remove it",
                         kind);
    }
    if (source->of_count > POLICY_CONDITION_CHILDREN_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s.of: %zu conditions, at most %d are allowed", kind, source->of_count,
                         POLICY_CONDITION_CHILDREN_MAX);
    }
    if (depth >= POLICY_CONDITION_DEPTH_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s.of: conditions are nested deeper than %d levels", kind,
                         POLICY_CONDITION_DEPTH_MAX);
    }
    struct condition *children = arena_calloc(arena, source->of_count, sizeof *children);
    if (!children) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the policy set");
    }
    for (size_t i = 0; i < source->of_count; i++) {
        int rc = compile_at_depth(cache, arena, &source->of[i], depth + 1, &children[i], err);
        if (rc) {
            return error_wrap(err, "%s.of[%zu]", kind, i);
        }
    }
    ret->children = children;
    ret->child_count = source->of_count;
    return 0;
}

static int compile_at_depth(struct program_cache *cache, struct arena *arena,
                            const struct policy_condition_source *source, unsigned depth,
                            struct condition *ret, struct error *err)
{
    *ret = (struct condition){.kind = source->kind, .match_any = source->match_any};
    switch (source->kind) {
    case POLICY_CONDITION_MATCH_ANY:
        return 0;
    case POLICY_CONDITION_MATCH:
    case POLICY_CONDITION_NOT:
        return compile_leaf(cache, arena, source, ret, err);
    case POLICY_CONDITION_ALL:
    case POLICY_CONDITION_ANY:
    case POLICY_CONDITION_NONE:
        return compile_children(cache, arena, source, depth, ret, err);
    case POLICY_CONDITION_OPA:
        return error_set(err, STATUS_UNIMPLEMENTED,
                         "opa: Rego conditions are not supported; write the condition in CEL with "
                         "'match', 'not', 'all', 'any' or 'none'");
    case POLICY_CONDITION_UNSET:
        break;
    }
    return error_set(err, STATUS_INVALID_ARGUMENT,
                     "the condition is missing and would never match; set one of matchAny, match, "
                     "not, all, any, none");
}

int condition_compile(struct program_cache *cache, struct arena *arena,
                      const struct policy_condition_source *source, struct condition *ret,
                      struct error *err)
{
    return compile_at_depth(cache, arena, source, 1, ret, err);
}

/* Octelium counts an index past the end of a list as input that is missing, like a key that is
 * not there; the language's own predicate does not. */
static bool is_missing_input(int code)
{
    return policy_error_is_missing_input(code) || code == POLICY_E_INDEX_RANGE;
}

static void trace(struct condition_run *run, const struct condition *c, unsigned depth,
                  enum policy_rule_result result)
{
    if (run->trace) {
        run->trace(run, c, depth, result);
    }
}

/* The expression of `match` or `not`, before negation. Missing input is "false" of the expression,
 * so that `not` then matches: the original's meaning, which strict mode looks for. */
static enum condition_result eval_expression(const struct condition *c, struct condition_run *run,
                                             bool is_negated, bool *ret_missing)
{
    struct policy_value v;
    int rc = policy_eval(c->program, &run->input, run->scratch, &v, &run->error);
    int code = -rc;
    enum condition_result result = CONDITION_ERROR;
    *ret_missing = false;
    if (rc && is_missing_input(code)) {
        run->has_missing = true;
        run->has_missing_under_negation |= is_negated;
        run->error_code = code;
        *ret_missing = true;
        result = CONDITION_FALSE;
    } else if (rc) {
        run->error_code = code;
    } else if (v.kind != POLICY_BOOL) {
        run->error_code = POLICY_E_NO_SUCH_OVERLOAD;
        (void)error_set(&run->error, STATUS_INVALID_ARGUMENT,
                        "the expression gave %s, and a condition must give bool",
                        policy_kind_name(v.kind));
    } else {
        result = v.as.truth ? CONDITION_TRUE : CONDITION_FALSE;
    }
    arena_reset(run->scratch);
    return result;
}

static enum condition_result eval_leaf(const struct condition *c, struct condition_run *run,
                                       unsigned depth, bool is_negated)
{
    bool is_missing;
    bool is_not = c->kind == POLICY_CONDITION_NOT;
    enum condition_result result = eval_expression(c, run, is_negated != is_not, &is_missing);
    if (result == CONDITION_ERROR) {
        trace(run, c, depth, POLICY_RULE_ERROR);
        return result;
    }
    if (is_not) {
        result = result == CONDITION_TRUE ? CONDITION_FALSE : CONDITION_TRUE;
    }
    trace(run, c, depth,
          is_missing                 ? POLICY_RULE_MISSING
          : result == CONDITION_TRUE ? POLICY_RULE_TRUE
                                     : POLICY_RULE_FALSE);
    return result;
}

static enum condition_result eval_at_depth(const struct condition *c, struct condition_run *run,
                                           unsigned depth, bool is_negated);

/* all stops at the first false, any and none at the first true; an error ends it at once, so an
 * error in a later child is never seen when an earlier one decides. */
static enum condition_result eval_children(const struct condition *c, struct condition_run *run,
                                           unsigned depth, bool is_negated)
{
    bool is_all = c->kind == POLICY_CONDITION_ALL;
    bool negates = c->kind == POLICY_CONDITION_NONE;
    enum condition_result stop = is_all ? CONDITION_FALSE : CONDITION_TRUE;
    enum condition_result result = is_all ? CONDITION_TRUE : CONDITION_FALSE;
    for (size_t i = 0; i < c->child_count && result != stop; i++) {
        result = eval_at_depth(&c->children[i], run, depth + 1, is_negated != negates);
        if (result == CONDITION_ERROR) {
            trace(run, c, depth, POLICY_RULE_ERROR);
            return result;
        }
    }
    if (negates) {
        result = result == CONDITION_TRUE ? CONDITION_FALSE : CONDITION_TRUE;
    }
    trace(run, c, depth, result == CONDITION_TRUE ? POLICY_RULE_TRUE : POLICY_RULE_FALSE);
    return result;
}

static enum condition_result eval_at_depth(const struct condition *c, struct condition_run *run,
                                           unsigned depth, bool is_negated)
{
    switch (c->kind) {
    case POLICY_CONDITION_MATCH_ANY:
        trace(run, c, depth, c->match_any ? POLICY_RULE_TRUE : POLICY_RULE_FALSE);
        return c->match_any ? CONDITION_TRUE : CONDITION_FALSE;
    case POLICY_CONDITION_MATCH:
    case POLICY_CONDITION_NOT:
        return eval_leaf(c, run, depth, is_negated);
    case POLICY_CONDITION_ALL:
    case POLICY_CONDITION_ANY:
    case POLICY_CONDITION_NONE:
        return eval_children(c, run, depth, is_negated);
    case POLICY_CONDITION_UNSET:
    case POLICY_CONDITION_OPA:
        break;
    }
    /* condition_compile() lets neither pass. */
    run->error_code = POLICY_E_INVALID_ARGUMENT;
    (void)error_set(&run->error, STATUS_INTERNAL, "condition of an unknown form");
    return CONDITION_ERROR;
}

enum condition_result condition_eval(const struct condition *c, struct condition_run *run)
{
    run->has_missing = false;
    run->has_missing_under_negation = false;
    run->error_code = 0;
    return eval_at_depth(c, run, 0, false);
}
