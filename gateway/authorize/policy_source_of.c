#include "gateway/authorize/policy_source_of.h"

#include "gateway/authorize/message_view.h"
#include "gateway/rpc/codec.h"

static int no_room(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The policy needs too much memory");
}

static int convert_condition(const Core__Condition *from, unsigned depth, struct arena *scratch,
                             struct policy_condition_source *ret, struct error *err);

static int convert_children(Core__Condition *const *from, size_t count,
                            enum policy_condition_kind kind, unsigned depth, struct arena *scratch,
                            struct policy_condition_source *ret, struct error *err)
{
    struct policy_condition_source *of = arena_calloc(scratch, count, sizeof *of);
    if (!of) {
        return no_room(err);
    }
    ret->kind = kind;
    ret->of = of;
    ret->of_count = count;
    /* The library names the place; here only the recursion is bounded, one level beyond its limit.
     */
    for (size_t i = 0; i < count && depth <= POLICY_CONDITION_DEPTH_MAX; i++) {
        int rc = convert_condition(from[i], depth + 1, scratch, &of[i], err);
        if (rc) {
            return rc;
        }
    }
    return 0;
}

static int convert_condition(const Core__Condition *from, unsigned depth, struct arena *scratch,
                             struct policy_condition_source *ret, struct error *err)
{
    *ret = (struct policy_condition_source){.kind = POLICY_CONDITION_UNSET};
    if (!from) {
        return 0;
    }
    switch (from->type_case) {
    case CORE__CONDITION__TYPE_MATCH_ANY:
        ret->kind = POLICY_CONDITION_MATCH_ANY;
        ret->match_any = from->match_any;
        return 0;
    case CORE__CONDITION__TYPE_MATCH:
        ret->kind = POLICY_CONDITION_MATCH;
        ret->text = str_from(from->match);
        return 0;
    case CORE__CONDITION__TYPE_NOT:
        ret->kind = POLICY_CONDITION_NOT;
        ret->text = str_from(from->not_);
        return 0;
    case CORE__CONDITION__TYPE_ALL:
        return convert_children(from->all->of, from->all->n_of, POLICY_CONDITION_ALL, depth,
                                scratch, ret, err);
    case CORE__CONDITION__TYPE_ANY:
        return convert_children(from->any->of, from->any->n_of, POLICY_CONDITION_ANY, depth,
                                scratch, ret, err);
    case CORE__CONDITION__TYPE_NONE:
        return convert_children(from->none->of, from->none->n_of, POLICY_CONDITION_NONE, depth,
                                scratch, ret, err);
    case CORE__CONDITION__TYPE_OPA:
        ret->kind = POLICY_CONDITION_OPA;
        return 0;
    case CORE__CONDITION__TYPE__NOT_SET:
    case _CORE__CONDITION__TYPE__CASE_IS_INT_SIZE:
        break;
    }
    return 0;
}

static int convert_rules(const Core__Policy__Spec *spec, struct arena *scratch,
                         struct policy_source *ret, struct error *err)
{
    struct policy_rule_source *rules = arena_calloc(scratch, spec->n_rules, sizeof *rules);
    if (!rules) {
        return no_room(err);
    }
    for (size_t i = 0; i < spec->n_rules; i++) {
        const Core__Policy__Spec__Rule *from = spec->rules[i];
        rules[i].name = str_from(from->name);
        rules[i].priority = from->priority;
        rules[i].effect = from->effect == CORE__POLICY__SPEC__RULE__EFFECT__ALLOW ? POLICY_ALLOW
                          : from->effect == CORE__POLICY__SPEC__RULE__EFFECT__DENY
                              ? POLICY_DENY
                              : POLICY_EFFECT_UNSET;
        int rc = convert_condition(from->condition, 1, scratch, &rules[i].condition, err);
        if (rc) {
            return rc;
        }
    }
    ret->rules = rules;
    ret->rule_count = spec->n_rules;
    return 0;
}

static int convert_enforcement(const Core__Policy__Spec *spec, struct arena *scratch,
                               struct policy_source *ret, struct error *err)
{
    size_t count = spec->n_enforcement_rules;
    struct policy_enforcement_source *rules = arena_calloc(scratch, count, sizeof *rules);
    if (!rules) {
        return no_room(err);
    }
    for (size_t i = 0; i < count; i++) {
        const Core__Policy__Spec__EnforcementRule *from = spec->enforcement_rules[i];
        rules[i].effect = from->effect == CORE__POLICY__SPEC__ENFORCEMENT_RULE__EFFECT__ENFORCE
                              ? POLICY_ENFORCE
                          : from->effect == CORE__POLICY__SPEC__ENFORCEMENT_RULE__EFFECT__IGNORE
                              ? POLICY_IGNORE
                              : POLICY_ENFORCEMENT_UNSET;
        int rc = convert_condition(from->condition, 1, scratch, &rules[i].condition, err);
        if (rc) {
            return rc;
        }
    }
    ret->enforcement_rules = rules;
    ret->enforcement_rule_count = count;
    return 0;
}

/* "camelCase, at most 100 characters": what a rule can write after `attrs.`. */
static bool attr_key_is_valid(struct str key)
{
    if (key.len == 0 || key.len > POLICY_ATTR_KEY_MAX_BYTES || key.ptr[0] < 'a' ||
        key.ptr[0] > 'z') {
        return false;
    }
    for (size_t i = 1; i < key.len; i++) {
        char c = key.ptr[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9')) {
            return false;
        }
    }
    return true;
}

static int convert_attrs(const Google__Protobuf__Struct *attrs, struct arena *set_arena,
                         struct policy_source *ret, struct error *err)
{
    ret->attrs = policy_null();
    if (!attrs) {
        return 0;
    }
    size_t size = protobuf_c_message_get_packed_size(&attrs->base);
    if (size > POLICY_ATTRS_MAX_BYTES) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "attrs: %zu bytes, at most %d are allowed",
                         size, POLICY_ATTRS_MAX_BYTES);
    }
    for (size_t i = 0; i < attrs->n_fields; i++) {
        struct str key = str_from(attrs->fields[i]->key);
        if (!attr_key_is_valid(key)) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "attrs: the key '%.*s' is not valid; use camelCase, letters and "
                             "digits, at most %d of them",
                             STR_ARG(key), POLICY_ATTR_KEY_MAX_BYTES);
        }
    }
    const ProtobufCMessage *copy = codec_copy(&attrs->base, set_arena);
    struct policy_value view = message_view_make(copy, set_arena);
    if (view.kind == POLICY_ABSENT) {
        return no_room(err);
    }
    ret->attrs = view;
    return 0;
}

int policy_source_of(const char *name, const Meta__Metadata *metadata,
                     const Core__Policy__Spec *spec, struct arena *scratch, struct arena *set_arena,
                     struct policy_source *ret, struct error *err)
{
    *ret = (struct policy_source){.name = str_from(name), .attrs = policy_null()};
    if (metadata) {
        ret->uid = str_from(metadata->uid);
        ret->resource_version = str_from(metadata->resource_version);
    }
    if (!spec) {
        return 0;
    }
    size_t size = protobuf_c_message_get_packed_size(&spec->base);
    if (size > POLICY_SPEC_MAX_BYTES) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Policy '%s': spec has %zu bytes, at most %d are allowed", name, size,
                         POLICY_SPEC_MAX_BYTES);
    }
    ret->is_disabled = spec->is_disabled;
    int rc = convert_rules(spec, scratch, ret, err);
    rc = rc ? rc : convert_enforcement(spec, scratch, ret, err);
    rc = rc ? rc : convert_attrs(spec->attrs, set_arena, ret, err);
    return rc ? error_wrap(err, "Policy '%s'", name) : 0;
}

static const void *member_of(const ProtobufCMessage *m, const char *name)
{
    const ProtobufCFieldDescriptor *f =
        m ? protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name) : NULL;
    return f ? (const char *)m + f->offset : NULL;
}

static const ProtobufCMessage *message_member(const ProtobufCMessage *m, const char *name)
{
    const ProtobufCMessage *const *p = member_of(m, name);
    return p ? *p : NULL;
}

static const void *repeated_member(const ProtobufCMessage *m, const char *name, size_t *ret_count)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);
    if (!f) {
        *ret_count = 0;
        return NULL;
    }
    *ret_count = *(const size_t *)(const void *)((const char *)m + f->quantifier_offset);
    return *(const void *const *)(const void *)((const char *)m + f->offset);
}

struct authorization authorization_of(const ProtobufCMessage *resource)
{
    struct authorization a = {0};
    const ProtobufCMessage *m = message_member(message_member(resource, "spec"), "authorization");
    if (m) {
        a.names = repeated_member(m, "policies", &a.name_count);
        a.inline_policies = repeated_member(m, "inline_policies", &a.inline_policy_count);
    }
    return a;
}
