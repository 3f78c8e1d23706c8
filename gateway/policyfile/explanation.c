#include "gateway/policyfile/explanation.h"

#include "gateway/rpc/codec.h"

enum { VALUE_BYTES_MAX = 200, INDENT = 2 };

bool explainer_init(struct explainer *e, struct arena *arena)
{
    *e = (struct explainer){.arena = arena};
    e->message = CODEC_NEW(arena, Ext__Explanation, ext__explanation);
    return e->message;
}

static char *copy(struct explainer *e, struct str s)
{
    static char nothing[1];
    char *text = arena_strndup(e->arena, s.len ? s.ptr : "", s.len);
    e->is_cut |= !text;
    return text ? text : nothing;
}

static char *copy_cstr(struct explainer *e, const char *s)
{
    return copy(e, str_from(s));
}

/* Room for one more pointer. */
static void *more(struct explainer *e, void *items, size_t count, size_t *room, size_t max)
{
    void *grown = count < *room || count < max
                      ? arena_grow(e->arena, items, count, room, sizeof(void *), 16)
                      : NULL;
    e->is_cut = e->is_cut || !grown;
    return grown;
}

void explainer_value(void *explainer, const struct policy_trace_step *step)
{
    struct explainer *e = explainer;
    void *room = more(e, e->values, e->value_count, &e->value_room, EXPLANATION_VALUES_MAX);
    Ext__Explanation__Value *v =
        room ? CODEC_NEW(e->arena, Ext__Explanation__Value, ext__explanation__value) : NULL;
    if (!v) {
        return;
    }
    v->begin = step->begin;
    v->end = step->end;
    if (step->code) {
        v->error = copy_cstr(e, policy_error_name(step->code));
    } else {
        struct buf b;
        buf_init(&b, VALUE_BYTES_MAX + 64);
        policy_value_print(step->value, VALUE_BYTES_MAX, &b);
        v->value = copy(e, buf_str(&b));
        buf_free(&b);
    }
    e->values = room;
    e->values[e->value_count++] = v;
}

static const char *effect_name(enum policy_effect effect)
{
    return effect == POLICY_ALLOW ? "ALLOW" : effect == POLICY_DENY ? "DENY" : "";
}

static const char *result_name(enum policy_rule_result result)
{
    static const char *const names[] = {[POLICY_RULE_FALSE] = "FALSE",
                                        [POLICY_RULE_TRUE] = "TRUE",
                                        [POLICY_RULE_MISSING] = "MISSING",
                                        [POLICY_RULE_ERROR] = "ERROR"};
    return names[result];
}

void explainer_step(void *explainer, const struct policy_rule_step *step)
{
    struct explainer *e = explainer;
    Ext__Explanation *m = e->message;
    void *room = more(e, m->steps, m->n_steps, &e->step_room, EXPLANATION_STEPS_MAX);
    Ext__Explanation__Step *s =
        room ? CODEC_NEW(e->arena, Ext__Explanation__Step, ext__explanation__step) : NULL;
    if (s) {
        s->attached_to = copy(e, step->attached_to);
        s->policy = copy(e, step->policy_name);
        s->is_inline = step->is_inline;
        s->is_enforcement_rule = step->is_enforcement_rule;
        s->rule_index = (uint32_t)step->rule_index;
        s->rule_name = copy(e, step->rule_name);
        s->effect = copy_cstr(e, effect_name(step->effect));
        s->priority = step->priority;
        s->depth = step->depth;
        s->kind = copy_cstr(e, policy_condition_kind_name(step->kind));
        s->expression = copy(e, step->text);
        s->result = copy_cstr(e, result_name(step->result));
        s->detail = copy_cstr(e, step->detail);
        s->values = e->values;
        s->n_values = e->value_count;
        m->steps = room;
        m->steps[m->n_steps++] = s;
    }
    e->values = NULL;
    e->value_count = 0;
    e->value_room = 0;
}

void explainer_decide(struct explainer *e, const struct policy_decision *d)
{
    Ext__Explanation *m = e->message;
    m->is_allowed = d->is_allowed;
    m->reason = copy_cstr(e, policy_reason_name(d->reason));
    m->policy = copy(e, d->policy_name);
    m->attached_to = copy(e, d->attached_to);
    m->priority = d->priority;
    m->detail = copy_cstr(e, d->detail);
    m->policy_set_version = d->set_version;
    if (d->rule_name.len > 0) {
        m->rule = copy(e, d->rule_name);
    } else if (d->policy_name.len > 0 && d->reason != POLICY_REASON_MISSING) {
        char *index = arena_printf(e->arena, "#%zu", d->rule_index);
        m->rule = index ? index : m->rule;
    }
}

static const char *mark_of(const Ext__Explanation__Step *s)
{
    return cstr_eq(s->result, "TRUE")      ? "yes"
           : cstr_eq(s->result, "FALSE")   ? "no"
           : cstr_eq(s->result, "MISSING") ? "no, input is missing"
                                           : "error";
}

/* An expression on one line. */
static void add_flat(struct buf *out, const char *text)
{
    bool was_space = true;
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        bool is_space = c <= ' ' || c == 127;
        if (!is_space) {
            buf_add_u8(out, c);
        } else if (!was_space && p[1]) {
            buf_add_u8(out, ' ');
        }
        was_space = is_space;
    }
}

static void print_value(const Ext__Explanation__Step *s, const Ext__Explanation__Value *v,
                        unsigned depth, struct buf *out)
{
    size_t len = strlen(s->expression);
    if (v->begin >= v->end || v->end > len ||
        str_is(str_make(s->expression + v->begin, v->end - v->begin), "ctx")) {
        return;
    }
    struct buf part;
    buf_init(&part, len + 1);
    buf_add(&part, s->expression + v->begin, v->end - v->begin);
    buf_add_u8(&part, 0);
    if (!part.failed) {
        buf_printf(out, "%*s", (int)(depth * INDENT + 8), "");
        add_flat(out, (const char *)part.ptr);
        buf_printf(out, " = %s%s\n", v->error[0] ? "error " : "",
                   v->error[0] ? v->error : v->value);
    }
    buf_free(&part);
}

static bool same_rule(const Ext__Explanation__Step *a, const Ext__Explanation__Step *b)
{
    return a->rule_index == b->rule_index && a->is_enforcement_rule == b->is_enforcement_rule &&
           cstr_eq(a->policy, b->policy) && cstr_eq(a->attached_to, b->attached_to);
}

static void print_rule(const Ext__Explanation__Step *s, struct buf *out)
{
    buf_printf(out, "%s '%s'", s->is_inline ? "inline policy" : "policy", s->policy);
    if (s->is_enforcement_rule) {
        buf_printf(out, " enforcement rule #%u", s->rule_index);
    } else {
        buf_printf(out, " rule #%u%s%s%s: %s", s->rule_index, s->rule_name[0] ? " '" : "",
                   s->rule_name, s->rule_name[0] ? "'" : "", s->effect);
        if (s->priority) {
            buf_printf(out, " at priority %d", s->priority);
        }
    }
    buf_printf(out, ", attached to %s\n", s->attached_to);
}

static void print_step(const Ext__Explanation__Step *s, bool with_values, struct buf *out)
{
    buf_printf(out, "%*s%s", (int)(s->depth * INDENT + 4), "", s->kind);
    if (s->expression[0]) {
        buf_add_cstr(out, " ");
        add_flat(out, s->expression);
    }
    buf_printf(out, " => %s", mark_of(s));
    if (s->detail[0]) {
        buf_printf(out, " (%.*s)", (int)strcspn(s->detail, "\n"), s->detail);
    }
    buf_add_u8(out, '\n');
    for (size_t i = 0; with_values && i < s->n_values; i++) {
        print_value(s, s->values[i], s->depth, out);
    }
}

/* The step of a condition comes after those below it; it is shown before them. Depth is bounded by
 * that of conditions. */
static void print_tree(Ext__Explanation__Step *const *steps, size_t count, bool with_values,
                       struct buf *out)
{
    const Ext__Explanation__Step *root = steps[count - 1];
    size_t begin = 0;
    print_step(root, with_values, out);
    for (size_t i = 0; i + 1 < count; i++) {
        if (steps[i]->depth == root->depth + 1) {
            print_tree(steps + begin, i + 1 - begin, with_values, out);
            begin = i + 1;
        }
    }
}

void explanation_print(const Ext__Explanation *m, bool with_values, struct buf *out)
{
    for (size_t i = 0; i < m->n_steps;) {
        size_t end = i + 1;
        /* A rule ends with the step of its root. */
        while (end < m->n_steps && m->steps[end - 1]->depth > 0 &&
               same_rule(m->steps[i], m->steps[end])) {
            end++;
        }
        print_rule(m->steps[i], out);
        print_tree(m->steps + i, end - i, with_values, out);
        i = end;
    }
    for (size_t i = 0; i < m->n_notes; i++) {
        buf_printf(out, "note: %s\n", m->notes[i]);
    }
    buf_printf(out, "%s (%s)", m->is_allowed ? "ALLOWED" : "DENIED", m->reason);
    if (m->policy[0]) {
        buf_printf(out, " by policy '%s'", m->policy);
    }
    if (m->rule[0]) {
        buf_printf(out, " rule '%s'", m->rule);
    }
    if (m->attached_to[0]) {
        buf_printf(out, ", attached to %s", m->attached_to);
    }
    if (m->detail[0]) {
        buf_printf(out, ": %.*s", (int)strcspn(m->detail, "\n"), m->detail);
    }
    buf_add_u8(out, '\n');
}
