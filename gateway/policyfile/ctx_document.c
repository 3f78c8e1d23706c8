#include "gateway/policyfile/ctx_document.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/authorize/activation.h"
#include "gateway/text/yaml_reader.h"
#include "policy/base/suggest.h"

static struct tree_node *copy_node(const struct tree_node *node, struct arena *arena)
{
    struct tree_node *copy = arena_alloc(arena, sizeof *copy);
    if (copy) {
        *copy = *node;
        copy->next = NULL;
    }
    return copy;
}

static const struct tree_node *member_by_key(const struct tree_node *map, struct str key)
{
    for (const struct tree_node *n = map->first; n; n = n->next) {
        if (str_eq(n->key, key)) {
            return n;
        }
    }
    return NULL;
}

static bool append(struct tree_node *map, struct tree_node ***tail, const struct tree_node *item,
                   struct str key, struct arena *arena)
{
    struct tree_node *copy = item ? copy_node(item, arena) : NULL;
    if (!copy) {
        return false;
    }
    copy->key = key;
    **tail = copy;
    *tail = &copy->next;
    map->count++;
    return true;
}

static const struct tree_node *merge_maps(const struct tree_node *base,
                                          const struct tree_node *over, struct arena *arena)
{
    struct tree_node *map = copy_node(over, arena);
    if (!map) {
        return NULL;
    }
    struct tree_node **tail = &map->first;
    map->first = NULL;
    map->count = 0;
    for (const struct tree_node *n = base->first; n; n = n->next) {
        const struct tree_node *above = member_by_key(over, n->key);
        bool is_gone = above && above->type == TREE_NULL;
        const struct tree_node *item = above ? ctx_document_merge(n, above, arena) : n;
        if (!is_gone && !append(map, &tail, item, n->key, arena)) {
            return NULL;
        }
    }
    for (const struct tree_node *n = over->first; n; n = n->next) {
        bool is_new = !member_by_key(base, n->key) && n->type != TREE_NULL;
        if (is_new && !append(map, &tail, n, n->key, arena)) {
            return NULL;
        }
    }
    return map;
}

const struct tree_node *ctx_document_merge(const struct tree_node *base,
                                           const struct tree_node *over, struct arena *arena)
{
    if (!base || !over) {
        return over ? over : base;
    }
    if (base->type == TREE_MAP && over->type == TREE_MAP) {
        return merge_maps(base, over, arena);
    }
    return over;
}

const struct tree_node *ctx_document_defaults(struct arena *arena)
{
    static const char text[] =
        "service: {apiVersion: core/v1, kind: Service, spec: {mode: GRPC, isPublic: true, isTLS: "
        "true}, metadata: {name: " ACTIVATION_SERVICE_NAME ", isSystem: true}}\n"
        "namespace: {apiVersion: core/v1, kind: Namespace, metadata: {name: "
        "" ACTIVATION_NAMESPACE_NAME ", isSystem: true}}\n"
        "user: {apiVersion: core/v1, kind: User, metadata: {}, spec: {type: HUMAN}, status: {}}\n"
        "session: {apiVersion: core/v1, kind: Session, metadata: {}, spec: {state: ACTIVE}, "
        "status: {type: CLIENT}}\n"
        "request: {grpc: {}, http: {method: POST, headers: {}, scheme: https}, body: {}}\n";
    const struct tree_node *tree = NULL;
    struct error ignored = {0};
    return yaml_read(str_from(text), arena, &tree, &ignored) ? NULL : tree;
}

static int fail(const struct tree_node *node, struct error *err, const char *what)
{
    return error_set_at(err, STATUS_INVALID_ARGUMENT, node->line, node->column, "'%.*s' %s",
                        STR_ARG(node->key), what);
}

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "the document is too large");
}

static bool read_number(struct str text, double *ret)
{
    char *end;
    errno = 0;
    *ret = strtod(text.ptr, &end);
    return errno == 0 && end == text.ptr + text.len && text.len > 0;
}

static int any_scalar(const struct tree_node *node, struct policy_value *ret)
{
    double number;
    *ret = node->type == TREE_NULL ? policy_null() : policy_string(node->text);
    if (node->type == TREE_BOOL) {
        *ret = policy_bool(tree_is_true(node));
    } else if (node->type == TREE_NUMBER && read_number(node->text, &number)) {
        *ret = policy_double(number);
    }
    return 0;
}

static int bool_value(const struct tree_node *node, struct policy_value *ret, struct error *err)
{
    if (node->type != TREE_BOOL) {
        return fail(node, err, "must be true or false");
    }
    *ret = policy_bool(tree_is_true(node));
    return 0;
}

static int number_value(const struct tree_node *node, bool is_int, struct policy_value *ret,
                        struct error *err)
{
    double number;
    if (node->type != TREE_NUMBER || !read_number(node->text, &number)) {
        return fail(node, err, "must be a number");
    }
    bool is_whole = number >= -9007199254740992.0 && number <= 9007199254740992.0 &&
                    (double)(int64_t)number == number;
    if (is_int && !is_whole) {
        return fail(node, err, "must be a whole number");
    }
    *ret = is_int ? policy_int((int64_t)number) : policy_double(number);
    return 0;
}

static int text_value(const struct tree_node *node, const struct policy_shape *shape,
                      struct policy_value *ret, struct error *err)
{
    bool is_scalar = node->type == TREE_STRING ||
                     (node->is_plain && (node->type == TREE_NUMBER || node->type == TREE_BOOL));
    if (!is_scalar) {
        return fail(node, err, "must be text");
    }
    if (shape->kind == POLICY_SHAPE_ENUM) {
        struct suggest s = suggest_for(node->text);
        const char *name;
        bool found = false;
        for (size_t i = 0; (name = shape->ops->enum_text(shape, i)); i++) {
            found |= str_is(node->text, name);
            suggest_offer(&s, name);
        }
        if (!found) {
            return error_set_at(err, STATUS_INVALID_ARGUMENT, node->line, node->column,
                                "'%.*s' is never '%.*s'%s%s%s", STR_ARG(node->key),
                                STR_ARG(node->text), s.best ? "; did you mean '" : "",
                                s.best ? s.best : "", s.best ? "'?" : "");
        }
    }
    *ret = policy_string(node->text);
    return 0;
}

static bool value_is_zero(struct policy_value v, const struct policy_shape *shape)
{
    switch (v.kind) {
    case POLICY_BOOL:
        return !v.as.truth;
    case POLICY_INT:
        return v.as.i == 0;
    case POLICY_DOUBLE:
        return v.as.d == 0;
    case POLICY_STRING:
        return v.len == 0 || (shape->kind == POLICY_SHAPE_ENUM &&
                              str_is(policy_value_str(v), shape->ops->enum_text(shape, 0)));
    case POLICY_LIST:
        return policy_list_size(v.as.list) == 0;
    case POLICY_MAP:
        return policy_map_size(v.as.map) == 0;
    default:
        return false;
    }
}

static int fail_member(const struct tree_node *node, const struct policy_shape *object,
                       struct error *err)
{
    struct suggest s = suggest_for(node->key);
    const char *name;
    for (size_t i = 0; (name = object->ops->member_name(object, i)); i++) {
        suggest_offer(&s, name);
    }
    return error_set_at(err, STATUS_INVALID_ARGUMENT, node->key_line, node->key_column,
                        "ctx has no member '%.*s' here%s%s%s", STR_ARG(node->key),
                        s.best ? "; did you mean '" : "", s.best ? s.best : "", s.best ? "'?" : "");
}

static int map_value(const struct tree_node *node, const struct policy_shape *shape,
                     struct arena *arena, struct policy_value *ret, struct error *err)
{
    if (node->type != TREE_MAP) {
        return fail(node, err, "must be a map");
    }
    struct policy_entry *entries = arena_calloc(arena, node->count, sizeof *entries);
    size_t count = 0;
    for (const struct tree_node *n = node->first; entries && n; n = n->next) {
        struct policy_shape member = {.kind = POLICY_SHAPE_ANY};
        if (shape->kind == POLICY_SHAPE_OBJECT &&
            !shape->ops->member(shape, n->key, arena, &member)) {
            return fail_member(n, shape, err);
        }
        if (shape->kind == POLICY_SHAPE_MAP) {
            shape->ops->element(shape, arena, &member);
        }
        struct policy_entry *e = &entries[count];
        e->key = policy_string(n->key);
        int rc = ctx_document_value(n, &member, arena, &e->value, err);
        if (rc) {
            return rc;
        }
        count += !(member.zero_is_absent && value_is_zero(e->value, &member));
    }
    const struct policy_map *map;
    if (!entries || policy_map_build(arena, entries, count, &map)) {
        return no_memory(err);
    }
    *ret = policy_map(map);
    return 0;
}

static int list_value(const struct tree_node *node, const struct policy_shape *shape,
                      struct arena *arena, struct policy_value *ret, struct error *err)
{
    if (node->type != TREE_LIST) {
        return fail(node, err, "must be a list");
    }
    struct policy_shape element = {.kind = POLICY_SHAPE_ANY};
    if (shape->kind == POLICY_SHAPE_LIST) {
        shape->ops->element(shape, arena, &element);
    }
    struct policy_value *items = arena_calloc(arena, node->count, sizeof *items);
    size_t count = 0;
    for (const struct tree_node *n = node->first; items && n; n = n->next) {
        int rc = ctx_document_value(n, &element, arena, &items[count++], err);
        if (rc) {
            return rc;
        }
    }
    const struct policy_list *list = items ? policy_list_build(arena, items, count) : NULL;
    if (!list) {
        return no_memory(err);
    }
    *ret = policy_list(list);
    return 0;
}

int ctx_document_value(const struct tree_node *node, const struct policy_shape *shape,
                       struct arena *arena, struct policy_value *ret, struct error *err)
{
    switch (shape->kind) {
    case POLICY_SHAPE_ANY:
        return node->type == TREE_MAP    ? map_value(node, shape, arena, ret, err)
               : node->type == TREE_LIST ? list_value(node, shape, arena, ret, err)
                                         : any_scalar(node, ret);
    case POLICY_SHAPE_BOOL:
        return bool_value(node, ret, err);
    case POLICY_SHAPE_NUMBER:
    case POLICY_SHAPE_INT:
        return number_value(node, shape->kind == POLICY_SHAPE_INT, ret, err);
    case POLICY_SHAPE_STRING:
    case POLICY_SHAPE_INT_TEXT:
    case POLICY_SHAPE_ENUM:
    case POLICY_SHAPE_TIME_TEXT:
    case POLICY_SHAPE_DURATION_TEXT:
    case POLICY_SHAPE_BYTES_TEXT:
        return text_value(node, shape, ret, err);
    case POLICY_SHAPE_LIST:
        return list_value(node, shape, arena, ret, err);
    case POLICY_SHAPE_MAP:
    case POLICY_SHAPE_OBJECT:
        return map_value(node, shape, arena, ret, err);
    }
    return fail(node, err, "is of an unknown kind");
}
