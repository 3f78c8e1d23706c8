#ifndef GATEWAY_TEXT_TREE_H
#define GATEWAY_TEXT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* What a JSON or YAML text says, before anyone knows its type: scalars keep their text, so that
 * the schema decides what a `9007199254740993`, `no` or `0777` is. Nodes and texts live in an
 * arena. */

enum tree_type { TREE_NULL, TREE_BOOL, TREE_NUMBER, TREE_STRING, TREE_LIST, TREE_MAP };

enum { TREE_DEPTH_MAX = 100 };

struct tree_node {
    enum tree_type type;
    /* A YAML scalar without quotes: `type` is then only what it looks like, and where the schema
     * wants a string, its text is the string. */
    bool is_plain;
    uint32_t line; /* of the value, from 1; column in bytes (JSON) or characters (YAML), from 1 */
    uint32_t column;
    uint32_t key_line;
    uint32_t key_column;
    struct str text; /* scalars: the text without quotes and escapes; no NUL; NUL-terminated */
    struct str key;  /* of a map's member; NUL-terminated */
    struct tree_node *first; /* of a list or map */
    struct tree_node *next;  /* sibling */
    uint32_t count;          /* of children */
};

/* The member of that name, or NULL; also for a NULL or other node. */
const struct tree_node *tree_member(const struct tree_node *map, const char *key);

/* What a TREE_BOOL says. */
bool tree_is_true(const struct tree_node *node);

/* "a list", for error texts. */
const char *tree_type_name(enum tree_type type);

/* For readers: refuses a map with two members of the same key. */
int tree_check_duplicates(const struct tree_node *map, struct arena *arena, struct error *err);

/* -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?, the whole text (RFC 8259 §6). */
bool tree_text_is_number(struct str text);

#endif
