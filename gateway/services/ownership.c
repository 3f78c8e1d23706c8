#include "gateway/services/ownership.h"

#include "gateway/authorize/activation.h"
#include "gateway/gateway.h"
#include "gateway/services/access.h"
#include "policy/policy.h"

enum {
    COMPILE_BYTES_MAX = 4 * 1024 * 1024, /* for all expressions of one check */
    EVALUATE_BYTES_MAX = 4 * 1024 * 1024,
    EVALUATE_MS_MAX = 200, /* nothing else runs meanwhile */
};

/* What one check works with. */
struct ownership {
    struct request *r;
    struct policy_env *env;
    struct arena compile_arena;
    struct arena arena;
    struct policy_value ctx;
    uint64_t deadline_ns;
};

static uint64_t clock_of(void *context)
{
    return gateway_monotonic_ns(context);
}

/* Input that is missing makes the expression false, as Octelium has it: a `not` over it then
 * matches. */
static int evaluate_text(struct ownership *o, const char *text, bool *ret, struct error *err)
{
    const struct policy_program *program = NULL;
    int status = policy_compile(o->env, str_from(text), &o->compile_arena, &program, err);
    if (status) {
        return status;
    }
    struct policy_value vars[] = {[POLICY_VAR_CTX] = o->ctx};
    int64_t now_ns = o->r->started_at_ns;
    struct policy_input input = {
        .vars = vars,
        .vars_count = 1,
        .now = policy_timestamp(now_ns / 1000000000, (uint32_t)(now_ns % 1000000000)),
        .deadline_ns = o->deadline_ns,
        .clock_ns = clock_of,
        .clock_context = o->r->gateway,
    };
    struct policy_value value;
    int code = policy_eval(program, &input, &o->arena, &value, err);
    if (code && policy_error_is_missing_input(-code)) {
        *ret = false;
        return 0;
    }
    if (code) {
        return -STATUS_PERMISSION_DENIED;
    }
    if (value.kind != POLICY_BOOL) {
        return error_set(err, STATUS_PERMISSION_DENIED, "'%.100s' gives no bool", text);
    }
    *ret = value.as.truth;
    return 0;
}

static int evaluate(struct ownership *o, const Cordium__Condition *c, bool *ret, struct error *err);

/* True when a child gives `wanted`; stops there. An empty list gives false. */
static int any_is(struct ownership *o, size_t count, Cordium__Condition **of, bool wanted,
                  bool *ret, struct error *err)
{
    *ret = false;
    for (size_t i = 0; i < count && !*ret; i++) {
        bool value = false;
        int status = evaluate(o, of[i], &value, err);
        if (status) {
            return status;
        }
        *ret = value == wanted;
    }
    return 0;
}

/* Depth is bounded by spec_validate_cluster_config() before a config is stored. */
static int evaluate(struct ownership *o, const Cordium__Condition *c, bool *ret, struct error *err)
{
    bool found = false;
    int status = 0;
    switch ((int)c->type_case) {
    case CORDIUM__CONDITION__TYPE_MATCH_ANY:
        *ret = c->match_any;
        return 0;
    case CORDIUM__CONDITION__TYPE_MATCH:
        return evaluate_text(o, c->match, ret, err);
    case CORDIUM__CONDITION__TYPE_NOT:
        status = evaluate_text(o, c->not_, &found, err);
        *ret = !found;
        return status;
    case CORDIUM__CONDITION__TYPE_ALL:
        status = any_is(o, c->all->n_of, c->all->of, false, &found, err);
        *ret = c->all->n_of > 0 && !found;
        return status;
    case CORDIUM__CONDITION__TYPE_ANY:
        return any_is(o, c->any->n_of, c->any->of, true, ret, err);
    case CORDIUM__CONDITION__TYPE_NONE:
        status = any_is(o, c->none->n_of, c->none->of, true, &found, err);
        *ret = c->none->n_of > 0 && !found;
        return status;
    default:
        return error_set(err, STATUS_PERMISSION_DENIED, "a condition of an unknown form");
    }
}

static const Cordium__ClusterConfig__Spec__Space__Ownership *
ownership_of(const Cordium__ClusterConfig__Spec *spec)
{
    return spec && spec->space ? spec->space->ownership : NULL;
}

/* Whether a rule with that effect matches. */
static int find_match(struct ownership *o,
                      const Cordium__ClusterConfig__Spec__Space__Ownership *rules, int effect,
                      bool *ret, struct error *err)
{
    *ret = false;
    for (size_t i = 0; i < rules->n_rules && !*ret; i++) {
        const Cordium__ClusterConfig__Spec__Space__Ownership__Rule *rule = rules->rules[i];
        if ((int)rule->effect != effect || !rule->condition) {
            continue;
        }
        int status = evaluate(o, rule->condition, ret, err);
        if (status) {
            error_wrap(err, "ClusterConfig, ownership rule %zu", i);
            return status;
        }
    }
    return 0;
}

static int decide(struct ownership *o, const Cordium__ClusterConfig__Spec__Space__Ownership *rules,
                  bool *ret_allowed, struct error *err)
{
    bool denied = false;
    int status =
        find_match(o, rules, CORDIUM__CLUSTER_CONFIG__SPEC__SPACE__OWNERSHIP__RULE__EFFECT__DENY,
                   &denied, err);
    if (status || denied) {
        return status;
    }
    return find_match(o, rules,
                      CORDIUM__CLUSTER_CONFIG__SPEC__SPACE__OWNERSHIP__RULE__EFFECT__ALLOW,
                      ret_allowed, err);
}

static int check_rules(struct request *as_user,
                       const Cordium__ClusterConfig__Spec__Space__Ownership *rules,
                       bool *ret_allowed, struct error *err)
{
    struct ownership o = {
        .r = as_user,
        .deadline_ns = gateway_monotonic_ns(as_user->gateway) + (uint64_t)EVALUATE_MS_MAX * 1000000,
    };
    arena_init(&o.compile_arena, COMPILE_BYTES_MAX);
    arena_init(&o.arena, EVALUATE_BYTES_MAX);
    o.env = policy_env_new(POLICY_LIBRARIES_ALL, err);
    int status = o.env ? activation_make(as_user, &o.arena, &o.ctx)
                       : error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for a rule");
    if (!status) {
        status = decide(&o, rules, ret_allowed, err);
    }
    policy_env_free(o.env);
    arena_free(&o.arena);
    arena_free(&o.compile_arena);
    return status;
}

int ownership_check(struct request *r, const Core__User *user, Cordium__Space *space,
                    struct error *err)
{
    Cordium__ClusterConfig *config = NULL;
    int status = access_cluster_config(r, &config, err);
    if (status) {
        return status;
    }
    const Cordium__ClusterConfig__Spec__Space__Ownership *rules = ownership_of(config->spec);
    bool is_allowed = false;
    struct error cause = {0};
    if (rules) {
        /* The rules see the owner to be, who need not be the one who asks. */
        struct request as_user = *r;
        as_user.actor.user = user;
        as_user.touched.space = space;
        status = check_rules(&as_user, rules, &is_allowed, &cause);
    }
    if (!status && is_allowed) {
        return 0;
    }
    return error_set(
        err, STATUS_PERMISSION_DENIED,
        "The User '%s' may not own the organization Space '%s': %s (spec.space.ownership "
        "of Cordium's ClusterConfig decides)",
        user->metadata->name, space->metadata->name,
        status ? cause.text : "no ownership rule allows it");
}

static int compile_text(const struct policy_env *env, const char *text, struct error *err)
{
    struct arena arena;
    const struct policy_program *program = NULL;
    arena_init(&arena, COMPILE_BYTES_MAX);
    int status = policy_compile(env, str_from(text), &arena, &program, err);
    if (!status && !policy_program_may_be_bool(program)) {
        status = error_set(err, STATUS_INVALID_ARGUMENT, "'%.100s' gives no bool", text);
    }
    arena_free(&arena);
    return status;
}

static int compile_condition(const struct policy_env *env, const Cordium__Condition *c,
                             struct error *err);

static int compile_children(const struct policy_env *env, size_t count, Cordium__Condition **of,
                            struct error *err)
{
    int status = 0;
    for (size_t i = 0; !status && i < count; i++) {
        status = compile_condition(env, of[i], err);
    }
    return status;
}

static int compile_condition(const struct policy_env *env, const Cordium__Condition *c,
                             struct error *err)
{
    switch ((int)c->type_case) {
    case CORDIUM__CONDITION__TYPE_MATCH:
        return compile_text(env, c->match, err);
    case CORDIUM__CONDITION__TYPE_NOT:
        return compile_text(env, c->not_, err);
    case CORDIUM__CONDITION__TYPE_ALL:
        return compile_children(env, c->all->n_of, c->all->of, err);
    case CORDIUM__CONDITION__TYPE_ANY:
        return compile_children(env, c->any->n_of, c->any->of, err);
    case CORDIUM__CONDITION__TYPE_NONE:
        return compile_children(env, c->none->n_of, c->none->of, err);
    default:
        return 0;
    }
}

int ownership_validate(const Cordium__ClusterConfig__Spec *spec, struct error *err)
{
    const Cordium__ClusterConfig__Spec__Space__Ownership *rules = ownership_of(spec);
    if (!rules) {
        return 0;
    }
    struct policy_env *env = policy_env_new(POLICY_LIBRARIES_ALL, err);
    if (!env) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "Out of memory for the ownership rules");
    }
    int status = 0;
    for (size_t i = 0; !status && i < rules->n_rules; i++) {
        if (rules->rules[i]->condition) {
            status = compile_condition(env, rules->rules[i]->condition, err);
        }
        if (status) {
            error_wrap(err, "spec.space.ownership.rules[%zu].condition", i);
        }
    }
    policy_env_free(env);
    return status;
}
