#ifndef CLI_YAML_FOLDER_H
#define CLI_YAML_FOLDER_H

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* The text of a YAML file, of standard input ("-"), or of every .yaml and .yml file below a folder
 * in order of their names, joined as documents of one stream. */
int yaml_folder_read(const char *path, struct arena *arena, struct str *ret, struct error *err);

#endif
