/* Rules for the specs that are not of workspaces: the user's config, git providers, the cluster's
 * configuration. */
#include "gateway/services/spec_validation.h"

#include <string.h>

#include "gateway/services/limits.h"
#include "gateway/services/names.h"
#include "gateway/services/spec_check.h"

enum {
    ENV_COUNT_MAX = 128,
    ENV_KEY_MAX = 64,
    ENV_VALUE_MAX = 1024,
    TEXT_MAX = 256,
    SCOPES_MAX = 64,
    OWNERSHIP_RULES_MAX = 100,
    CONDITION_DEPTH_MAX = 16,
    CONDITION_CHILDREN_MAX = 100,
    EXPRESSION_MAX = 10000,
    QUOTA_MAX = 1000000,
};

static int check_user_env(const Cordium__UserConfig__Spec *spec, struct error *err)
{
    static const char field[] = "spec.envVars";
    int status = spec_check_count(spec->n_env_vars, ENV_COUNT_MAX, field, err);
    for (size_t i = 0; !status && i < spec->n_env_vars; i++) {
        const Cordium__UserConfig__Spec__EnvVar *env = spec->env_vars[i];
        struct spec_path key = spec_path("%s[%zu].key", field, i);
        status = spec_check_ascii(env->key, ENV_KEY_MAX, key.text, err);
        if (!status && (strchr(env->key, '=') || strchr(env->key, ' '))) {
            status = spec_refuse(err, key.text, env->key, "holds '=' or a space");
        }
        if (status) {
            return status;
        }
        if (env->type_case == CORDIUM__USER_CONFIG__SPEC__ENV_VAR__TYPE_FROM_USER_SECRET) {
            status = spec_check_ascii(env->from_user_secret, NAME_MAX_LEN,
                                      spec_path("%s[%zu].fromUserSecret", field, i).text, err);
        } else {
            bool is_set = env->type_case == CORDIUM__USER_CONFIG__SPEC__ENV_VAR__TYPE_VALUE;
            status = spec_check_length(is_set ? env->value : "", 1, ENV_VALUE_MAX,
                                       spec_path("%s[%zu].value", field, i).text, err);
        }
    }
    return status;
}

int spec_validate_user_config(const Cordium__UserConfig__Spec *spec, struct error *err)
{
    if (!spec) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "The spec of the UserConfig is unset");
    }
    int status = 0;
    if (spec->dotfiles) {
        status = spec_check_https_url(spec->dotfiles->url, "spec.dotfiles.url", err);
        if (!status) {
            status =
                spec_check_length(spec->dotfiles->branch, 0, TEXT_MAX, "spec.dotfiles.branch", err);
        }
        if (!status && spec->dotfiles->branch[0] == '-') {
            status =
                spec_refuse(err, "spec.dotfiles.branch", spec->dotfiles->branch, "begins with '-'");
        }
    }
    if (!status) {
        status = check_user_env(spec, err);
    }
    if (!status) {
        status = spec_validate_tasks(spec->n_tasks, spec->tasks, "spec.tasks", err);
    }
    return status ? status
                  : spec_check_length(spec->preferred_region, 0, NAME_LABEL_MAX,
                                      "spec.preferredRegion", err);
}

/* What the three kinds of provider have in common. */
static int check_provider(const char *client_id, const char *secret, size_t scope_count,
                          char **scopes, const char *field, struct error *err)
{
    int status = spec_check_ascii(client_id, TEXT_MAX, spec_path("%s.clientID", field).text, err);
    if (!status) {
        status = spec_check_ascii(secret, NAME_MAX_LEN,
                                  spec_path("%s.clientSecret.fromSecret", field).text, err);
    }
    if (!status) {
        status = spec_check_count(scope_count, SCOPES_MAX, spec_path("%s.scopes", field).text, err);
    }
    for (size_t i = 0; !status && i < scope_count; i++) {
        status =
            spec_check_ascii(scopes[i], TEXT_MAX, spec_path("%s.scopes[%zu]", field, i).text, err);
    }
    return status;
}

/* from_secret of an unset oneof is NULL, not "". */
static const char *text_or_empty(const char *text)
{
    return text ? text : "";
}

static int check_oauth2(const Cordium__GitProvider__Spec__OAuth2 *p, struct error *err)
{
    int status = check_provider(
        p->client_id, p->client_secret ? text_or_empty(p->client_secret->from_secret) : "",
        p->n_scopes, p->scopes, "spec.oauth2", err);
    if (!status && p->n_scopes == 0) {
        status = error_set(err, STATUS_INVALID_ARGUMENT,
                           "spec.oauth2.scopes is empty: name at least one scope");
    }
    if (!status) {
        status = spec_check_https_url(p->auth_url, "spec.oauth2.authURL", err);
    }
    return status ? status : spec_check_https_url(p->token_url, "spec.oauth2.tokenURL", err);
}

int spec_validate_git_provider(const Cordium__GitProvider__Spec *spec, struct error *err)
{
    if (!spec) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "The spec of the GitProvider is unset");
    }
    switch ((int)spec->type_case) {
    case CORDIUM__GIT_PROVIDER__SPEC__TYPE_GITHUB: {
        const Cordium__GitProvider__Spec__Github *p = spec->github;
        return check_provider(p->client_id,
                              p->client_secret ? text_or_empty(p->client_secret->from_secret) : "",
                              p->n_scopes, p->scopes, "spec.github", err);
    }
    case CORDIUM__GIT_PROVIDER__SPEC__TYPE_GITLAB: {
        const Cordium__GitProvider__Spec__Gitlab *p = spec->gitlab;
        return check_provider(p->client_id,
                              p->client_secret ? text_or_empty(p->client_secret->from_secret) : "",
                              p->n_scopes, p->scopes, "spec.gitlab", err);
    }
    case CORDIUM__GIT_PROVIDER__SPEC__TYPE_OAUTH2:
        return check_oauth2(spec->oauth2, err);
    case CORDIUM__GIT_PROVIDER__SPEC__TYPE__NOT_SET:
    default:
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "The spec of the GitProvider has no type: write github, gitlab or oauth2");
    }
}

static int check_condition(const Cordium__Condition *c, unsigned depth, const char *field,
                           struct error *err);

static int check_children(size_t count, Cordium__Condition **of, unsigned depth, const char *field,
                          struct error *err)
{
    int status = spec_check_count(count, CONDITION_CHILDREN_MAX, field, err);
    for (size_t i = 0; !status && i < count; i++) {
        status = check_condition(of[i], depth + 1, spec_path("%s.of[%zu]", field, i).text, err);
    }
    return status;
}

static int check_condition(const Cordium__Condition *c, unsigned depth, const char *field,
                           struct error *err)
{
    if (depth > CONDITION_DEPTH_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s is nested deeper than %d", field,
                         CONDITION_DEPTH_MAX);
    }
    switch ((int)c->type_case) {
    case CORDIUM__CONDITION__TYPE_MATCH_ANY:
        return 0;
    case CORDIUM__CONDITION__TYPE_MATCH:
        return spec_check_length(c->match, 1, EXPRESSION_MAX, spec_path("%s.match", field).text,
                                 err);
    case CORDIUM__CONDITION__TYPE_NOT:
        return spec_check_length(c->not_, 1, EXPRESSION_MAX, spec_path("%s.not", field).text, err);
    case CORDIUM__CONDITION__TYPE_ALL:
        return check_children(c->all->n_of, c->all->of, depth, spec_path("%s.all", field).text,
                              err);
    case CORDIUM__CONDITION__TYPE_ANY:
        return check_children(c->any->n_of, c->any->of, depth, spec_path("%s.any", field).text,
                              err);
    case CORDIUM__CONDITION__TYPE_NONE:
        return check_children(c->none->n_of, c->none->of, depth, spec_path("%s.none", field).text,
                              err);
    case CORDIUM__CONDITION__TYPE_OPA:
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s.opa: OPA conditions are not supported, write the rule in CEL (match)",
                         field);
    case CORDIUM__CONDITION__TYPE__NOT_SET:
    default:
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s is empty: write matchAny, match, not, all, any or none", field);
    }
}

static int check_ownership(const Cordium__ClusterConfig__Spec__Space__Ownership *ownership,
                           struct error *err)
{
    static const char field[] = "spec.space.ownership.rules";
    int status = spec_check_count(ownership->n_rules, OWNERSHIP_RULES_MAX, field, err);
    for (size_t i = 0; !status && i < ownership->n_rules; i++) {
        const Cordium__ClusterConfig__Spec__Space__Ownership__Rule *rule = ownership->rules[i];
        if (rule->effect != CORDIUM__CLUSTER_CONFIG__SPEC__SPACE__OWNERSHIP__RULE__EFFECT__ALLOW &&
            rule->effect != CORDIUM__CLUSTER_CONFIG__SPEC__SPACE__OWNERSHIP__RULE__EFFECT__DENY) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "%s[%zu].effect is unset: write ALLOW or DENY", field, i);
        }
        if (!rule->condition) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "%s[%zu].condition is unset: write matchAny: true for all", field, i);
        }
        status =
            check_condition(rule->condition, 1, spec_path("%s[%zu].condition", field, i).text, err);
    }
    return status;
}

static int check_quota(uint32_t value, const char *field, struct error *err)
{
    if (value > QUOTA_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s is %u, the maximum is %d", field, value,
                         QUOTA_MAX);
    }
    return 0;
}

static int check_cluster_limit(const Cordium__ClusterConfig__Spec__Workspace__Limit *limit,
                               struct error *err)
{
    static const char field[] = "spec.workspace.limit";
    int status = check_quota(limit->max_per_user, "spec.workspace.limit.maxPerUser", err);
    if (!status) {
        status =
            check_quota(limit->max_active_per_user, "spec.workspace.limit.maxActivePerUser", err);
    }
    if (!status) {
        status = limit_validate(limit->build_limit, spec_path("%s.buildLimit", field).text, err);
    }
    if (!status) {
        status = limit_validate(limit->default_organization_space_limit,
                                spec_path("%s.defaultOrganizationSpaceLimit", field).text, err);
    }
    if (!status) {
        status = limit_validate(limit->default_user_space_limit,
                                spec_path("%s.defaultUserSpaceLimit", field).text, err);
    }
    return status ? status
                  : limit_validate(limit->max_limit, spec_path("%s.maxLimit", field).text, err);
}

int spec_validate_cluster_config(const Cordium__ClusterConfig__Spec *spec, struct error *err)
{
    if (!spec) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "The spec of the ClusterConfig is unset");
    }
    int status = 0;
    if (spec->space && spec->space->ownership) {
        status = check_ownership(spec->space->ownership, err);
    }
    if (!status && spec->workspace && spec->workspace->limit) {
        status = check_cluster_limit(spec->workspace->limit, err);
    }
    if (!status && spec->workspace && spec->workspace->runtime) {
        status = spec_validate_capabilities(spec->workspace->runtime->capabilities,
                                            "spec.workspace.runtime.capabilities", err);
    }
    return status;
}

/* Messages are walked by their descriptors; their depth was bounded when they were decoded. */
static int visit_field(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                       const char *field_name,
                       int (*visit)(void *arg, const char *value, struct error *err), void *arg,
                       struct error *err)
{
    const char *base = (const char *)message;
    bool is_wanted = field->type == PROTOBUF_C_TYPE_STRING && strcmp(field->name, field_name) == 0;
    if (!is_wanted && field->type != PROTOBUF_C_TYPE_MESSAGE) {
        return 0;
    }
    bool is_member = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    if (is_member && *(const uint32_t *)(base + field->quantifier_offset) != field->id) {
        return 0;
    }
    size_t count = 1;
    void *const *items = (void *const *)(base + field->offset);
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        count = *(const size_t *)(base + field->quantifier_offset);
        items = *(void *const *const *)items;
    }
    for (size_t i = 0; i < count; i++) {
        if (!items[i]) {
            continue;
        }
        int status = is_wanted ? visit(arg, items[i], err)
                               : spec_visit_strings(items[i], field_name, visit, arg, err);
        if (status) {
            return status;
        }
    }
    return 0;
}

int spec_visit_strings(const ProtobufCMessage *message, const char *field_name,
                       int (*visit)(void *arg, const char *value, struct error *err), void *arg,
                       struct error *err)
{
    if (!message) {
        return 0;
    }
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        int status =
            visit_field(message, &message->descriptor->fields[i], field_name, visit, arg, err);
        if (status) {
            return status;
        }
    }
    return 0;
}
