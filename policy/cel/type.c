#include "policy/cel/type.h"

#include <string.h>

static const struct type simple_types[] = {
    [TYPE_DYN] = {.kind = TYPE_DYN},
    [TYPE_NULL] = {.kind = TYPE_NULL},
    [TYPE_BOOL] = {.kind = TYPE_BOOL},
    [TYPE_INT] = {.kind = TYPE_INT},
    [TYPE_UINT] = {.kind = TYPE_UINT},
    [TYPE_DOUBLE] = {.kind = TYPE_DOUBLE},
    [TYPE_STRING] = {.kind = TYPE_STRING},
    [TYPE_BYTES] = {.kind = TYPE_BYTES},
    [TYPE_TIMESTAMP] = {.kind = TYPE_TIMESTAMP},
    [TYPE_DURATION] = {.kind = TYPE_DURATION},
};

static const struct {
    const char *name;
    uint8_t kind;
    uint8_t params_max;
} type_names[] = {
    {"dyn", TYPE_DYN, 0},
    {"null_type", TYPE_NULL, 0},
    {"bool", TYPE_BOOL, 0},
    {"int", TYPE_INT, 0},
    {"uint", TYPE_UINT, 0},
    {"double", TYPE_DOUBLE, 0},
    {"string", TYPE_STRING, 0},
    {"bytes", TYPE_BYTES, 0},
    {"timestamp", TYPE_TIMESTAMP, 0},
    {"duration", TYPE_DURATION, 0},
    {"google.protobuf.Timestamp", TYPE_TIMESTAMP, 0},
    {"google.protobuf.Duration", TYPE_DURATION, 0},
    {"list", TYPE_LIST, 1},
    {"map", TYPE_MAP, 2},
    {"type", TYPE_TYPE, 1},
};

const struct type *type_simple(enum type_kind kind)
{
    return &simple_types[kind];
}

const struct type *type_make(struct arena *arena, enum type_kind kind, struct str name,
                             const struct type *a, const struct type *b)
{
    struct type *t = arena_zalloc(arena, sizeof *t);
    const struct type **params = arena_alloc(arena, 2 * sizeof(struct type *));
    if (!t || !params) {
        return NULL;
    }
    params[0] = a;
    params[1] = b;
    t->kind = (uint8_t)kind;
    t->name = name;
    t->params = params;
    t->count = (uint8_t)(b ? 2 : a ? 1 : 0);
    return t;
}

const struct type *type_list(struct arena *arena, const struct type *elem)
{
    return elem ? type_make(arena, TYPE_LIST, STR_NONE, elem, NULL) : NULL;
}

const struct type *type_map(struct arena *arena, const struct type *key, const struct type *value)
{
    return key && value ? type_make(arena, TYPE_MAP, STR_NONE, key, value) : NULL;
}

const struct type *type_optional(struct arena *arena, const struct type *elem)
{
    return elem ? type_make(arena, TYPE_ABSTRACT, STR("optional_type"), elem, NULL) : NULL;
}

const struct type *type_type(struct arena *arena, const struct type *of)
{
    return of ? type_make(arena, TYPE_TYPE, STR_NONE, of, NULL) : NULL;
}

struct type *type_fresh(struct arena *arena)
{
    struct type *t = arena_zalloc(arena, sizeof *t);
    if (t) {
        t->kind = TYPE_PARAM;
    }
    return t;
}

static void skip_space(struct str *text)
{
    while (text->len > 0 && text->ptr[0] == ' ') {
        *text = str_make(text->ptr + 1, text->len - 1);
    }
}

bool type_take(struct str *text, const char *token)
{
    skip_space(text);
    if (!str_starts_with(*text, str_from(token))) {
        return false;
    }
    size_t n = strlen(token);
    *text = str_make(text->ptr + n, text->len - n);
    return true;
}

static struct str take_name(struct str *text)
{
    skip_space(text);
    size_t n = 0;
    while (n < text->len && (text->ptr[n] == '_' || text->ptr[n] == '.' ||
                             (text->ptr[n] >= '0' && text->ptr[n] <= '9') ||
                             ((text->ptr[n] | 32) >= 'a' && (text->ptr[n] | 32) <= 'z'))) {
        n++;
    }
    struct str name = str_make(text->ptr, n);
    *text = str_make(text->ptr + n, text->len - n);
    return name;
}

static const struct type *letter_param(struct arena *arena, struct str name,
                                       const struct type *letters[26])
{
    size_t index = (size_t)(name.ptr[0] - 'A');
    if (!letters[index]) {
        struct type *t = type_fresh(arena);
        if (!t) {
            return NULL;
        }
        t->name = name;
        letters[index] = t;
    }
    return letters[index];
}

static const struct type *parse_at_depth(struct arena *arena, struct str *text,
                                         const struct type *letters[26], unsigned depth);

/* The "(A, B)" after a name; returns the number of parameters, or -1. */
static int parse_params(struct arena *arena, struct str *text, const struct type *letters[26],
                        const struct type *params[TYPE_PARAMS_MAX], unsigned depth)
{
    int count = 0;
    if (!type_take(text, "(")) {
        return 0;
    }
    do {
        if (count == TYPE_PARAMS_MAX) {
            return -1;
        }
        params[count] = parse_at_depth(arena, text, letters, depth + 1);
        if (!params[count++]) {
            return -1;
        }
    } while (type_take(text, ","));
    return type_take(text, ")") ? count : -1;
}

static const struct type *parse_at_depth(struct arena *arena, struct str *text,
                                         const struct type *letters[26], unsigned depth)
{
    struct str name = take_name(text);
    if (name.len == 0 || depth > TYPE_DEPTH_MAX) {
        return NULL;
    }
    if (name.len == 1 && name.ptr[0] >= 'A' && name.ptr[0] <= 'Z') {
        return letter_param(arena, name, letters);
    }
    const struct type *params[TYPE_PARAMS_MAX];
    int count = parse_params(arena, text, letters, params, depth);
    if (count < 0) {
        return NULL;
    }
    uint8_t kind = TYPE_ABSTRACT;
    for (size_t i = 0; i < sizeof type_names / sizeof type_names[0]; i++) {
        if (str_is(name, type_names[i].name)) {
            kind = type_names[i].kind;
            if (count != type_names[i].params_max && kind != TYPE_TYPE) {
                return NULL;
            }
        }
    }
    if (kind < TYPE_LIST) {
        return type_simple((enum type_kind)kind);
    }
    struct type *t = arena_zalloc(arena, sizeof *t);
    if (!t) {
        return NULL;
    }
    t->kind = kind;
    t->name = name;
    t->count = (uint8_t)count;
    t->params = arena_memdup(arena, params, (size_t)count * sizeof params[0]);
    return t->params ? t : NULL;
}

const struct type *type_parse(struct arena *arena, struct str *text, const struct type *letters[26])
{
    return parse_at_depth(arena, text, letters, 0);
}

const struct type *type_instantiate(struct arena *arena, const struct type *t,
                                    const struct type *fresh[26])
{
    if (t->kind == TYPE_PARAM && t->name.len == 1) {
        size_t index = (size_t)(t->name.ptr[0] - 'A');
        if (!fresh[index]) {
            fresh[index] = type_fresh(arena);
        }
        return fresh[index];
    }
    if (t->count == 0) {
        return t;
    }
    struct type *copy = arena_memdup(arena, t, sizeof *t);
    const struct type **params = arena_alloc(arena, t->count * sizeof *params);
    if (!copy || !params) {
        return NULL;
    }
    for (size_t i = 0; i < t->count; i++) {
        params[i] = type_instantiate(arena, t->params[i], fresh);
        if (!params[i]) {
            return NULL;
        }
    }
    copy->params = params;
    return copy;
}

const struct type *type_find(const struct type *t)
{
    while (t->kind == TYPE_PARAM && t->bound) {
        t = t->bound;
    }
    return t;
}

bool type_is_optional(const struct type *t)
{
    return t->kind == TYPE_ABSTRACT && t->count == 1 && str_is(t->name, "optional_type");
}

bool type_is_dyn(const struct type *t)
{
    return t->kind == TYPE_DYN;
}

/* One step of the checker's work on types; past the limit the compilation fails. */
static bool count_step(struct type_context *tc)
{
    if (++tc->steps > TYPE_STEPS_MAX) {
        tc->out_of_memory = true;
    }
    return !tc->out_of_memory;
}

static bool occurs_in(struct type_context *tc, const struct type *param, const struct type *t,
                      unsigned depth)
{
    t = type_find(t);
    if (t == param || depth > TYPE_DEPTH_MAX || !count_step(tc)) {
        return true;
    }
    for (size_t i = 0; i < t->count; i++) {
        if (occurs_in(tc, param, t->params[i], depth + 1)) {
            return true;
        }
    }
    return false;
}

static bool bind(struct type_context *tc, const struct type *param, const struct type *to)
{
    struct type_trail_entry *grown =
        arena_grow(tc->arena, tc->trail, tc->trail_count, &tc->trail_room, sizeof *grown, 32);
    if (!grown) {
        tc->out_of_memory = true;
        return false;
    }
    tc->trail = grown;
    struct type *writable = (struct type *)param;
    tc->trail[tc->trail_count++] = (struct type_trail_entry){writable, param->bound};
    writable->bound = to;
    return true;
}

static void undo_to(struct type_context *tc, size_t mark)
{
    while (tc->trail_count > mark) {
        struct type_trail_entry *entry = &tc->trail[--tc->trail_count];
        entry->param->bound = entry->before;
    }
}

static bool is_nullable(const struct type *t)
{
    return t->kind == TYPE_ABSTRACT || t->kind == TYPE_TIMESTAMP || t->kind == TYPE_DURATION ||
           t->kind == TYPE_NULL;
}

/* Is every value of `b` described by `a` at least as loosely? */
static bool is_as_general(const struct type *a, const struct type *b)
{
    a = type_find(a);
    b = type_find(b);
    if (a->kind == TYPE_DYN || a->kind == TYPE_PARAM) {
        return true;
    }
    if (b->kind == TYPE_DYN || b->kind == TYPE_PARAM) {
        return false;
    }
    if (b->kind == TYPE_NULL && is_nullable(a)) {
        return true;
    }
    if (a->kind != b->kind || a->count != b->count || !str_eq(a->name, b->name)) {
        return a->kind == TYPE_TYPE && b->kind == TYPE_TYPE;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (!is_as_general(a->params[i], b->params[i])) {
            return false;
        }
    }
    return true;
}

static const struct type *more_general(const struct type *a, const struct type *b)
{
    return is_as_general(a, b) ? a : b;
}

static bool assign(struct type_context *tc, const struct type *to, const struct type *from,
                   unsigned depth);

/* Lets the (perhaps bound) PARAM stand for `t`, widening what it is bound to. 1 when it does, 0
 * when its present meaning forbids, -1 when it is free and may not be bound to `t`. */
static int assign_param(struct type_context *tc, const struct type *param, const struct type *t,
                        unsigned depth)
{
    /* The last PARAM of the chain holds the meaning. */
    while (param->bound && param->bound->kind == TYPE_PARAM) {
        param = param->bound;
    }
    if (type_find(t) == param || (param->bound && type_find(t) == param->bound)) {
        return 1;
    }
    if (param->bound) {
        if (!assign(tc, t, param->bound, depth + 1)) {
            return 0;
        }
        const struct type *general = more_general(t, param->bound);
        if (general != param->bound && !occurs_in(tc, param, general, 0)) {
            return bind(tc, param, general) ? 1 : 0;
        }
        return 1;
    }
    if (occurs_in(tc, param, t, 0)) {
        return -1;
    }
    return bind(tc, param, t) ? 1 : 0;
}

static bool assign_structure(struct type_context *tc, const struct type *to,
                             const struct type *from, unsigned depth)
{
    if (to->kind == TYPE_DYN || from->kind == TYPE_DYN) {
        return true;
    }
    if (to->kind == TYPE_NULL || from->kind == TYPE_NULL) {
        return is_nullable(to) && is_nullable(from);
    }
    if (to->kind != from->kind) {
        return false;
    }
    if (to->kind == TYPE_TYPE) {
        return true;
    }
    if (to->count != from->count || (to->kind == TYPE_ABSTRACT && !str_eq(to->name, from->name))) {
        return false;
    }
    for (size_t i = 0; i < to->count; i++) {
        if (!assign(tc, to->params[i], from->params[i], depth + 1)) {
            return false;
        }
    }
    return true;
}

static bool assign(struct type_context *tc, const struct type *to, const struct type *from,
                   unsigned depth)
{
    if (to == from) {
        return true;
    }
    if (depth > TYPE_DEPTH_MAX || !count_step(tc)) {
        return false;
    }
    if (from->kind == TYPE_PARAM) {
        int outcome = assign_param(tc, from, to, depth);
        if (outcome >= 0) {
            return outcome == 1;
        }
    }
    if (to->kind == TYPE_PARAM) {
        int outcome = assign_param(tc, to, from, depth);
        if (outcome >= 0) {
            return outcome == 1;
        }
    }
    return assign_structure(tc, type_find(to), type_find(from), depth);
}

bool type_assign_all(struct type_context *tc, const struct type *const *to,
                     const struct type *const *from, size_t count)
{
    size_t mark = tc->trail_count;
    for (size_t i = 0; i < count; i++) {
        if (!assign(tc, to[i], from[i], 0)) {
            undo_to(tc, mark);
            return false;
        }
    }
    return true;
}

bool type_assign(struct type_context *tc, const struct type *to, const struct type *from)
{
    return type_assign_all(tc, &to, &from, 1);
}

const struct type *type_join(struct type_context *tc, const struct type *a, const struct type *b)
{
    if (!a) {
        return b;
    }
    if (type_assign(tc, a, b)) {
        return more_general(a, b);
    }
    return type_simple(TYPE_DYN);
}

const struct type *type_resolve(struct arena *arena, const struct type *t, bool free_is_dyn)
{
    t = type_find(t);
    if (t->kind == TYPE_PARAM) {
        return free_is_dyn ? type_simple(TYPE_DYN) : t;
    }
    if (t->count == 0) {
        return t;
    }
    struct type *copy = arena_memdup(arena, t, sizeof *t);
    const struct type **params = arena_alloc(arena, t->count * sizeof *params);
    if (!copy || !params) {
        return NULL;
    }
    for (size_t i = 0; i < t->count; i++) {
        params[i] = type_resolve(arena, t->params[i], free_is_dyn);
        if (!params[i]) {
            return NULL;
        }
    }
    copy->params = params;
    return copy;
}

bool type_equal(const struct type *a, const struct type *b)
{
    a = type_find(a);
    b = type_find(b);
    if (a == b) {
        return true;
    }
    if (a->kind != b->kind || a->count != b->count || a->kind == TYPE_PARAM ||
        (a->kind == TYPE_ABSTRACT && !str_eq(a->name, b->name))) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (!type_equal(a->params[i], b->params[i])) {
            return false;
        }
    }
    return true;
}

void type_print(const struct type *t, struct buf *out)
{
    t = type_find(t);
    if (t->kind == TYPE_PARAM) {
        buf_add_cstr(out, "dyn");
        return;
    }
    if (t->kind == TYPE_ABSTRACT) {
        buf_add_str(out, t->name);
    }
    for (size_t i = 0; i < sizeof type_names / sizeof type_names[0]; i++) {
        if (type_names[i].kind == t->kind) {
            buf_add_cstr(out, type_names[i].name);
            break;
        }
    }
    for (size_t i = 0; i < t->count; i++) {
        buf_add_cstr(out, i == 0 ? "(" : ", ");
        type_print(t->params[i], out);
    }
    if (t->count > 0) {
        buf_add_cstr(out, ")");
    }
}
