#ifndef EXECUTOR_STEPS_STORAGE_HOST_H
#define EXECUTOR_STEPS_STORAGE_HOST_H

#include "executor/steps/storage.h"
#include "executor/steps/storage_backend.h"

/* What storage.c and storage_copy.c share; nobody else includes it. */

enum {
    STORAGE_NAME_BYTES = 72, /* 32 bytes in hex, and a prefix or suffix */
    STORAGE_SPARES_MAX = 16,
};

#define STORAGE_COPY_PREFIX "copy-"

enum place { PLACE_STORAGES, PLACE_EPHEMERAL, PLACE_SNAPSHOTS, PLACE_IMAGES, PLACE_TRASH, PLACES };

struct storage_host {
    const struct storage_backend *backend;
    char rejected[ERROR_TEXT_MAX];
    char pool_path[4096];
    int pool;
    int places[PLACES];
    struct storage *open;        /* those in use */
    struct storage_copy *copies; /* in the making */
    struct storage_id copied;    /* made by the last of them, and not opened yet */
    unsigned trash_next;
    char spares[STORAGE_SPARES_MAX][STORAGE_NAME_BYTES]; /* in PLACE_EPHEMERAL */
    unsigned spare_count;
    unsigned spare_next;
};

struct storage {
    struct storage_host *host;
    struct storage_id id;
    char name[STORAGE_NAME_BYTES];
    enum place place;
    int fd;
    bool was_made;
    struct storage *next;
};

void storage_hex_name(char *ret, const uint8_t *bytes, size_t n);
int storage_unit_remove(struct storage_host *host, enum place place, const char *name);

/* By a sandbox, or as one end of a copy in the making. */
bool storage_is_in_use(const struct storage_host *host, const struct storage_id *id);
bool storage_is_copied(const struct storage_host *host, const struct storage_id *id);

#endif
