#ifndef SERVICES_WORKSPACE_SOURCE_H
#define SERVICES_WORKSPACE_SOURCE_H

#include "gateway/services/workspace_run.h"

/* Where a run's files come from, remembered in the store's settings:
 *
 *     source/WORKSPACE-UID            what a persistent workspace was made from
 *     build/TEMPLATE-UID/BUILD-ID     what a template's build left
 *
 * Each holds "KEY IMAGE SNAPSHOT": the image's key and id, and the storage to begin with or "-". */

struct workspace_source {
    char key[65];
    char image_id[65];
    bool has_snapshot;
    char snapshot[37];
};

/* Fills the run's image_id, storage_from and is_fresh from what is there: the workspace's own
 * source, else the template's ready build when it was made from the same image source, else an
 * image with that key. Not found is no error. */
int workspace_source_find(struct workspace_run *run, bool *ret_is_found, struct error *err);

/* After the first successful run of a persistent workspace. */
int workspace_source_remember(struct workspace_run *run, struct error *err);
int workspace_source_get(struct gateway *g, const char *workspace_uid, struct arena *arena,
                         struct workspace_source *ret, struct error *err);
int workspace_source_forget(struct gateway *g, const char *workspace_uid, struct error *err);

int workspace_source_put_build(struct gateway *g, const char *template_uid, const char *build_id,
                               const struct workspace_source *source, struct error *err);
int workspace_source_get_build(struct gateway *g, const char *template_uid, const char *build_id,
                               struct arena *arena, struct workspace_source *ret,
                               struct error *err);
int workspace_source_forget_build(struct gateway *g, const char *template_uid, const char *build_id,
                                  struct error *err);

#endif
