#include "gateway/text/tree.h"

#include <stdlib.h>

enum { SMALL_MAP = 16 }; /* up to here pairs are compared, above keys are sorted */

const struct tree_node *tree_member(const struct tree_node *map, const char *key)
{
    if (!map || map->type != TREE_MAP) {
        return NULL;
    }
    for (const struct tree_node *n = map->first; n; n = n->next) {
        if (str_is(n->key, key)) {
            return n;
        }
    }
    return NULL;
}

const char *tree_type_name(enum tree_type type)
{
    static const char *const names[] = {
        [TREE_NULL] = "null",   [TREE_BOOL] = "a boolean", [TREE_NUMBER] = "a number",
        [TREE_STRING] = "text", [TREE_LIST] = "a list",    [TREE_MAP] = "an object",
    };
    return names[type];
}

static int duplicate_error(const struct tree_node *again, struct error *err)
{
    return error_set_at(err, STATUS_INVALID_ARGUMENT, again->key_line, again->key_column,
                        "the key '%.*s' is given twice", STR_ARG(again->key));
}

static int node_key_cmp(const void *a, const void *b)
{
    const struct tree_node *x = *(const struct tree_node *const *)a;
    const struct tree_node *y = *(const struct tree_node *const *)b;
    int order = str_cmp(x->key, y->key);
    if (order != 0) {
        return order;
    }
    /* The later one of two equal keys stands second, so that the error names it. */
    if (x->key_line != y->key_line) {
        return x->key_line < y->key_line ? -1 : 1;
    }
    return (x->key_column > y->key_column) - (x->key_column < y->key_column);
}

int tree_check_duplicates(const struct tree_node *map, struct arena *arena, struct error *err)
{
    if (map->count <= SMALL_MAP) {
        for (const struct tree_node *n = map->first; n; n = n->next) {
            for (const struct tree_node *before = map->first; before != n; before = before->next) {
                if (str_eq(before->key, n->key)) {
                    return duplicate_error(n, err);
                }
            }
        }
        return 0;
    }
    const struct tree_node **nodes = arena_calloc(arena, map->count, sizeof(struct tree_node *));
    if (!nodes) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "the text is too large");
    }
    size_t count = 0;
    for (const struct tree_node *n = map->first; n; n = n->next) {
        nodes[count++] = n;
    }
    qsort(nodes, count, sizeof(struct tree_node *), node_key_cmp);
    for (size_t i = 1; i < count; i++) {
        if (str_eq(nodes[i - 1]->key, nodes[i]->key)) {
            return duplicate_error(nodes[i], err);
        }
    }
    return 0;
}

static size_t digits_skip(struct str text, size_t at)
{
    while (at < text.len && text.ptr[at] >= '0' && text.ptr[at] <= '9') {
        at++;
    }
    return at;
}

bool tree_is_true(const struct tree_node *node)
{
    /* "true", and in YAML also "True" and "TRUE". */
    return node->type == TREE_BOOL && node->text.len == 4;
}

bool tree_text_is_number(struct str text)
{
    size_t at = text.len > 0 && text.ptr[0] == '-' ? 1 : 0;
    size_t end = digits_skip(text, at);
    if (end == at || (text.ptr[at] == '0' && end > at + 1)) {
        return false;
    }
    at = end;
    if (at < text.len && text.ptr[at] == '.') {
        end = digits_skip(text, at + 1);
        if (end == at + 1) {
            return false;
        }
        at = end;
    }
    if (at < text.len && (text.ptr[at] == 'e' || text.ptr[at] == 'E')) {
        at++;
        if (at < text.len && (text.ptr[at] == '+' || text.ptr[at] == '-')) {
            at++;
        }
        end = digits_skip(text, at);
        if (end == at) {
            return false;
        }
        at = end;
    }
    return at == text.len;
}
