#ifndef EXECUTOR_IMAGE_ENGINE_H
#define EXECUTOR_IMAGE_ENGINE_H

#include <stdbool.h>

#include "executor/image/command.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* buildah, with its settings and its storage in one directory. */

enum { ENGINE_ITEMS_MAX = 64 };

struct engine_options {
    const char *directory; /* absolute; holds work/ and out/ */
    const char *ca_bundle; /* file for TLS in RUN steps and to registries; NULL for the usual */
    const char *mirrors[ENGINE_ITEMS_MAX]; /* "docker.io=host:5000" or "...,insecure" */
    size_t mirror_count;
    const char *variables[ENGINE_ITEMS_MAX]; /* "NAME=VALUE", seen by RUN steps, not kept */
    size_t variable_count;
    const char *hosts[ENGINE_ITEMS_MAX]; /* "name:address", for RUN steps */
    size_t host_count;
    const char *credentials; /* "user:password" for the registry of a pull; NULL for none */
};

struct engine;

/* Writes the settings. The arena must outlive the engine. */
int engine_open(const struct engine_options *options, struct arena *arena, struct engine **ret,
                struct error *err);

/* Builds a Dockerfile's text; context NULL is an empty directory. Standard error shows its steps,
 * and the log has the last one. *ret_image is the id, "sha256:...". UNKNOWN when a step
 * failed. */
int engine_build(struct engine *engine, struct str dockerfile, const char *context,
                 struct build_log *log, const char **ret_image, struct error *err);

/* Gets an image from a registry ("python:3.13-slim", "ghcr.io/x/y@sha256:..."). */
int engine_pull(struct engine *engine, const char *reference, struct build_log *log,
                const char **ret_image, struct error *err);

/* The JSON of `buildah inspect`. */
int engine_inspect(struct engine *engine, const char *image, struct build_log *log, struct buf *ret,
                   struct error *err);

/* Copies the image's files to out/rootfs; what was there is removed first. *ret_fd is the root. */
int engine_export(struct engine *engine, const char *image, struct build_log *log, int *ret_fd,
                  struct error *err);

/* Removes layers that the last result does not stand on, as far as that works. */
void engine_prune(struct engine *engine, struct build_log *log);

/* Removes work/ with all layers. */
int engine_remove_work(const char *directory, struct error *err);

#endif
