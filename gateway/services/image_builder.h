#ifndef SERVICES_IMAGE_BUILDER_H
#define SERVICES_IMAGE_BUILDER_H

#include "api/cordium.pb-c.h"
#include "executor/client/executor_client.h"
#include "gateway/services/image_metadata.h"
#include "gateway/services/workspace_env.h"
#include "gateway/services/workspace_log.h"
#include "gateway/services/workspace_state.h"

/* Images by what they are made from (workspace_image_key()): pulled or built once, inside a build
 * sandbox of the executor, and kept. Several who want the same one wait for one build. */
struct image_table;
struct gateway;

struct image_result {
    struct workspace_failure failure; /* message NULL: success */
    const char *id;                   /* 64 hex digits */
};

/* Who waits for an image. Embedded; must stay until `done` was called or it was forgotten. */
struct image_waiter {
    void (*done)(struct image_waiter *waiter, const struct image_result *result);
    struct workspace_log *log; /* gets the output of the build; may be NULL */
    struct image_waiter *next;
    void *context;
};

struct image_request {
    const Cordium__Workspace__Spec__Image *image; /* expanded */
    const char *key;
    bool is_forced;                          /* a new build, though there is an image */
    const struct workspace_secrets *secrets; /* of registries; used during the call only */
};

int image_table_new(struct gateway *g, struct image_table **ret, struct error *err);
void image_table_free(struct image_table *table);

/* The finished image for a key: id and metadata, in the arena. NOT_FOUND. */
int image_find_by_key(struct gateway *g, const char *key, struct arena *arena, const char **ret_id,
                      struct error *err);
int image_find_metadata(struct gateway *g, const char *id, struct arena *arena,
                        struct image_metadata *ret, struct error *err);

/* 64 hex digits as the executor takes them; false when they are none. */
bool image_id_parse(const char *id, struct executor_digest *ret);

/* Begins a build, or joins the one that runs; done comes later. UNAVAILABLE, INVALID_ARGUMENT (a
 * kind of image that cannot be built here), NOT_FOUND (a secret). */
int image_table_request(struct image_table *table, const struct image_request *request,
                        struct image_waiter *waiter, struct error *err);

/* Builds and pulls under way. NULL has none. */
unsigned image_table_count(const struct image_table *table);

/* Waits no more; the last one to leave cancels the build. */
void image_table_forget(struct image_table *table, struct image_waiter *waiter);

/* The executor does not have it (any more). */
void image_forget_key(struct gateway *g, const char *key);

/* The one that image_find_by_key() gives for its source. */
bool image_is_newest(struct gateway *g, const char *id, struct arena *arena);

/* Takes it out of the store. */
void image_forget(struct gateway *g, const char *id, struct arena *arena);

/* PULLING_IMAGE or BUILDING_IMAGE. */
workspace_state image_state_of(const Cordium__Workspace__Spec__Image *image);

#endif
