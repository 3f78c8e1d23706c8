#ifndef CLI_YAML_FOLDER_H
#define CLI_YAML_FOLDER_H

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* The text of a YAML file, of standard input ("-"), or of every .yaml and .yml file below a folder
 * in order of their names, joined as documents of one stream. Links to files are followed, links to
 * folders are not. A folder without such files is an error. */
int yaml_folder_read(const char *path, struct arena *arena, struct str *ret, struct error *err);

/* Each file of a folder by itself, or the one file ("-": standard input). `path` and `text` live in
 * the arena. A visitor's negative status ends it. */
int yaml_folder_visit(const char *path,
                      int (*visit)(void *arg, const char *path, struct str text, struct error *err),
                      void *arg, struct arena *arena, struct error *err);

#endif
