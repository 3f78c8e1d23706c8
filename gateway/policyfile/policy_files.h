#ifndef POLICYFILE_POLICY_FILES_H
#define POLICYFILE_POLICY_FILES_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>

#include "gateway/policyfile/diagnostic.h"
#include "gateway/state/store.h"
#include "gateway/text/tree.h"
#include "gateway/text/yaml_place.h"
#include "policy/decide/policy_set.h"
#include "policy/policy.h"

/* Files of policies as they are written, without a server: read, checked, made into a set. */

/* One YAML document. */
struct policy_document {
    const char *file;
    const struct text_lines *lines; /* of the whole file */
    const struct tree_node *tree;
    enum store_kind kind;
    ProtobufCMessage *message;
    const char *name; /* metadata.name; "" for none */
};

/* One policy: a document, or an inline policy in one. */
struct written_policy {
    const struct policy_document *document;
    const struct tree_node *spec; /* NULL when there is none */
    const char *name;             /* may be "" for an inline one */
    bool is_inline;
    bool is_broken; /* an error was told */
};

struct policy_files {
    struct arena *arena; /* borrowed; everything lives in it */
    struct diagnostics diagnostics;
    struct policy_env *env;
    const struct policy_set *in_force; /* of the server behind the files; NULL: none is known */
    struct policy_document **documents;
    size_t document_count;
    size_t document_room;
    struct written_policy *policies;
    struct policy_source *sources; /* of policies, by index */
    size_t policy_count;
    size_t policy_room;
};

enum { POLICY_FILES_POLICIES_MAX = 100000 };

int policy_files_open(struct policy_files *files, struct arena *arena, struct error *err);
void policy_files_close(struct policy_files *files);

/* Reads the documents of one file; what is wrong becomes diagnostics. `path` and `text` must live
 * as long as the files. Documents that are not for `apply` (spaces, tests) are passed over. */
void policy_files_add(struct policy_files *files, const char *path, struct str text);

/* A file that could not even be read. */
void policy_files_add_unreadable(struct policy_files *files, const char *path, const char *why);

/* Compiles all expressions and looks for doubts. With is_alone, duplicates are told, and what the
 * files refer to that neither they nor the set in force has: for files that apply does not see. */
void policy_files_check(struct policy_files *files, bool is_alone);

/* The named policies of the files and those that every server has, compiled. They must have no
 * errors. */
int policy_files_build(struct policy_files *files, struct policy_set **ret, struct error *err);

/* For policy_check.c: a diagnostic about a node of a document, or about bytes of its text. */
void policy_files_tell(struct policy_files *files, const struct policy_document *document,
                       const struct tree_node *node, size_t begin, size_t end,
                       const struct diagnostic *what);

#endif
