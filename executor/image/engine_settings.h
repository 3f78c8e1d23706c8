#ifndef EXECUTOR_IMAGE_ENGINE_SETTINGS_H
#define EXECUTOR_IMAGE_ENGINE_SETTINGS_H

#include "executor/image/engine.h"

/* buildah's settings files, in work/ beneath directory_fd: registries.conf, storage.conf,
 * policy.json and containers.conf. INVALID_ARGUMENT when a mirror is written wrongly. */
int engine_settings_write(int directory_fd, const struct engine_options *options,
                          struct error *err);

/* Writes work/NAME anew; not through a link. */
int engine_file_write(int directory_fd, const char *name, const struct buf *content,
                      struct error *err);

#endif
