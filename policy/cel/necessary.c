#include "policy/cel/necessary.h"

#include "policy/cel/eval.h"

struct reader {
    struct policy_value attrs;
    struct arena *arena;
    struct necessary *found;
    size_t count;
};

/* ctx.a.b: the names. */
static bool read_path(const struct node *n, uint32_t variable, struct necessary *ret)
{
    bool is_variable = n->run == run_variable;
    if ((!is_variable && n->run != run_select_variable) || n->slot != variable) {
        return false;
    }
    ret->path = n->names;
    ret->path_count = is_variable ? 0 : n->count;
    return ret->path_count <= NECESSARY_PATH_MAX;
}

/* A constant, or a path below attrs that leads to a value. Attributes never change, so that what is
 * there now is what an evaluation will find. */
static bool read_constant(const struct reader *r, const struct node *n, struct policy_value *ret)
{
    struct necessary path;
    if (n->run == run_const) {
        *ret = n->value;
        return true;
    }
    if (r->attrs.kind != POLICY_MAP || !read_path(n, POLICY_VAR_ATTRS, &path)) {
        return false;
    }
    struct policy_value v = r->attrs;
    for (uint32_t i = 0; i < path.path_count; i++) {
        if (v.kind != POLICY_MAP || policy_map_get(v.as.map, path.path[i], r->arena, &v) != 1) {
            return false;
        }
    }
    *ret = v;
    return true;
}

static bool is_short_text(struct policy_value v)
{
    return v.kind == POLICY_STRING && v.len <= NECESSARY_TEXT_MAX_BYTES;
}

static bool take_texts(const struct reader *r, const struct policy_value *texts, size_t count,
                       struct necessary *ret)
{
    struct policy_value *copy = arena_calloc(r->arena, count, sizeof *copy);
    for (size_t i = 0; copy && i < count; i++) {
        copy[i] = texts[i];
    }
    ret->texts = copy;
    ret->text_count = (uint32_t)count;
    return copy;
}

static bool take_text(const struct reader *r, struct policy_value text, struct necessary *ret)
{
    return is_short_text(text) && take_texts(r, &text, 1, ret);
}

static bool read_equal(const struct reader *r, const struct node *n, struct necessary *ret)
{
    struct policy_value text;
    *ret = (struct necessary){.kind = NECESSARY_EQUAL};
    if ((n->run != run_equal && n->run != run_equal_text) || n->op != OP_EQ) {
        return false;
    }
    return ((read_path(n->a, POLICY_VAR_CTX, ret) && read_constant(r, n->b, &text)) ||
            (read_path(n->b, POLICY_VAR_CTX, ret) && read_constant(r, n->a, &text))) &&
           take_text(r, text, ret);
}

/* path in [texts] */
static bool read_one_of(const struct reader *r, const struct node *n, struct necessary *ret)
{
    struct policy_value list;
    struct policy_value texts[NECESSARY_TEXTS_MAX];
    *ret = (struct necessary){.kind = NECESSARY_EQUAL};
    bool is_in = n->run == run_in_set || (n->run == run_binary && n->op == OP_IN);
    if (!is_in || !read_path(n->a, POLICY_VAR_CTX, ret) || !read_constant(r, n->b, &list) ||
        list.kind != POLICY_LIST) {
        return false;
    }
    size_t count = policy_list_size(list.as.list);
    for (size_t i = 0; i < count; i++) {
        if (i == NECESSARY_TEXTS_MAX ||
            policy_list_get(list.as.list, i, r->arena, &texts[i]) != 0 ||
            !is_short_text(texts[i])) {
            return false;
        }
    }
    return take_texts(r, texts, count, ret);
}

/* "text" in path */
static bool read_key(const struct reader *r, const struct node *n, struct necessary *ret)
{
    *ret = (struct necessary){.kind = NECESSARY_KEY};
    return n->run == run_in_name && read_path(n->b, POLICY_VAR_CTX, ret) &&
           take_text(r, n->a->value, ret);
}

/* has(path.text) */
static bool read_member(const struct reader *r, const struct node *n, struct necessary *ret)
{
    *ret = (struct necessary){.kind = NECESSARY_MEMBER};
    return n->run == run_has && read_path(n->a, POLICY_VAR_CTX, ret) && take_text(r, n->value, ret);
}

/* path == "a" || path == "b", of one path. */
static bool read_either(const struct reader *r, const struct node *n, struct necessary *ret)
{
    struct policy_value texts[NECESSARY_TEXTS_MAX];
    size_t count = 0;
    if (n->run != run_or) {
        return false;
    }
    for (uint32_t i = 0; i < n->count; i++) {
        struct necessary one;
        bool fits = read_equal(r, n->items[i], &one) || read_one_of(r, n->items[i], &one);
        bool is_same = fits && (i == 0 || one.path_count == ret->path_count);
        for (uint32_t k = 0; is_same && i > 0 && k < one.path_count; k++) {
            is_same = str_eq(policy_value_str(one.path[k]), policy_value_str(ret->path[k]));
        }
        if (!is_same || one.text_count > NECESSARY_TEXTS_MAX - count) {
            return false;
        }
        for (uint32_t k = 0; k < one.text_count; k++) {
            texts[count++] = one.texts[k];
        }
        *ret = one;
    }
    return take_texts(r, texts, count, ret);
}

/* The conjuncts of n; false when one is of another form, and what follows it is not looked at. */
static bool read_conjuncts(struct reader *r, const struct node *n)
{
    if (n->run == run_and) {
        bool all = true;
        for (uint32_t i = 0; i < n->count && all; i++) {
            all = read_conjuncts(r, n->items[i]);
        }
        return all;
    }
    struct necessary one;
    if (r->count == NECESSARY_CONJUNCTS_MAX ||
        (!read_equal(r, n, &one) && !read_one_of(r, n, &one) && !read_key(r, n, &one) &&
         !read_member(r, n, &one) && !read_either(r, n, &one))) {
        return false;
    }
    r->found[r->count++] = one;
    return true;
}

size_t program_necessary(const struct policy_program *program, struct policy_value attrs,
                         struct arena *arena, struct necessary *ret, bool *ret_whole)
{
    struct reader r = {.attrs = attrs, .arena = arena, .found = ret};
    *ret_whole = read_conjuncts(&r, program->root);
    return r.count;
}
