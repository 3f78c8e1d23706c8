#ifndef CLI_KINDS_H
#define CLI_KINDS_H

#include <stdbool.h>

#include "gateway/rpc/schema.h"

/* The kinds of resources that get, create, update and delete work on. */
struct kind_column {
    const char *title;
    const char *path; /* of field.h */
};

enum { KIND_COLUMNS_MAX = 7, KIND_ALIASES_MAX = 5 };

struct kind {
    const char *name; /* "Space": as in the method names */
    const char *plural;
    const char *service; /* path prefix */
    const char *aliases[KIND_ALIASES_MAX];
    struct kind_column columns[KIND_COLUMNS_MAX];
    const char
        *singleton_get; /* method name of a kind that has one object, e.g. GetClusterConfig */
};

/* NULL when no kind has that name, plural or alias. */
const struct kind *kind_find(const char *word);

/* The method "<service><verb><name>", or NULL when the kind lacks the verb. */
const struct schema_method *kind_method(const struct kind *kind, const char *verb);

/* One line for each kind, for help. */
void kind_print_all(void);

#endif
