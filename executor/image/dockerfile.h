#ifndef EXECUTOR_IMAGE_DOCKERFILE_H
#define EXECUTOR_IMAGE_DOCKERFILE_H

#include "policy/base/bytes.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

enum { DOCKERFILE_MAX = 1 << 20 };

/* Copies a Dockerfile with `ARG NAME` put after each FROM, so that RUN steps see the variables of
 * --build-arg (a proxy, a CA bundle, an index) while the image does not keep them. Lines are told
 * apart as buildah does: continuation lines, comments, the `escape` directive, here-documents.
 *
 * INVALID_ARGUMENT when there is no FROM, or a NUL; RESOURCE_EXHAUSTED when it is too large. */
int dockerfile_add_args(struct str text, const char *const *names, size_t count, struct buf *out,
                        struct error *err);

#endif
