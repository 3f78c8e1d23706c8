#ifndef GATEWAY_STATE_STORE_H
#define GATEWAY_STATE_STORE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* All state that outlives a process, in one SQLite file (WAL; a committed write survives a power
 * cut). The one place that knows SQL. For one thread; calls block for well under a millisecond.
 *
 * Resources are whole messages, stored as they are on the wire, with the columns that look-ups
 * need beside them. Returned messages and texts live in the caller's arena.
 *
 * Errors: NOT_FOUND and ALREADY_EXISTS name the resource; INTERNAL names the step and SQLite's
 * reason; UNAVAILABLE when another process holds the file. */
struct store;

/* The numbers are in the file: never change one, add at the end. */
enum store_kind {
    STORE_SPACE = 1,
    STORE_TEMPLATE = 2,
    STORE_WORKSPACE = 3,
    STORE_MEMBERSHIP = 4,
    STORE_SECRET = 5,
    STORE_USER_SECRET = 6,
    STORE_GIT_PROVIDER = 7,
    STORE_SNAPSHOT = 8,
    STORE_VOLUME = 9,
    STORE_USER_CONFIG = 10,
    STORE_REGION = 11,
    STORE_CORDIUM_CONFIG = 12, /* cordium.v1 ClusterConfig */
    STORE_USER = 13,
    STORE_GROUP = 14,
    STORE_CREDENTIAL = 15,
    STORE_SESSION = 16,
    STORE_POLICY = 17,
    STORE_CLUSTER_CONFIG = 18, /* core.v1 ClusterConfig */
    STORE_RUN = 19,            /* cordium.ext.v1 RunResult */
    STORE_KIND_COUNT = 20,
};

/* What belongs to a kind. */
struct store_kind_info {
    const char *api_version; /* "cordium/v1" */
    const char *kind;        /* "Space" */
    const char *full_name;   /* "cordium.v1.Space", as errors name it */
    const ProtobufCMessageDescriptor *descriptor;
};
const struct store_kind_info *store_kind_info(enum store_kind kind);

/* The kind of a resource with that apiVersion and kind, or 0. */
enum store_kind store_kind_from(struct str api_version, struct str kind);

/* Columns beside the message. Empty or NULL texts are unset. What they mean is the services'
 * business; by custom owner is the user of status.user_ref, and a session's or credential's user.
 */
struct store_index {
    const char *space_uid;
    const char *owner_uid;
    const char *template_uid;
    int state; /* 0 to 63: Workspace.Status.State and the like */
    bool is_hidden;
};

/* Opens or makes the file (mode 0600; its folder must exist) and brings its layout up to date.
 * FAILED_PRECONDITION: the file is newer than this program, or is not ours. */
int store_open(const char *path, struct store **ret, struct error *err);
void store_close(struct store *store); /* NULL is fine */

/* What writing took since the store was opened: transactions' begins and ends, and statements that
 * change something, with the wait for the disk. */
struct store_write_time {
    uint64_t ns;
    uint64_t count; /* waits for the disk: transactions, and statements outside of one */
};
struct store_write_time store_write_time(const struct store *store);

/* Groups writes: all or nothing. A begin inside a begin is an INTERNAL error. */
int store_begin(struct store *store, struct error *err);

/* The same for what a power cut makes untrue anyway, such as that a workspace runs: the commit does
 * not wait for the disk. The death of the process loses nothing; a power cut may lose it, and then
 * nothing that was committed before it. */
int store_begin_transient(struct store *store, struct error *err);

/* Waits until what was committed is on the disk. Not inside of a transaction. */
int store_sync(struct store *store, struct error *err);
int store_commit(struct store *store, struct error *err);
void store_rollback(struct store *store); /* without a begin: nothing happens */

/* Ends what was begun: commits if status is 0, and rolls back if it is not or the commit fails.
 * Returns status or the commit's. */
int store_end(struct store *store, int status, struct error *err);

/* uid, name and resource_version are taken from the message's metadata, which must have them.
 * Insert: ALREADY_EXISTS when the kind has that name or uid. */
int store_insert(struct store *store, enum store_kind kind, const ProtobufCMessage *message,
                 const struct store_index *index, struct error *err);

/* Replaces the resource of the same uid. When `expected_version` is not NULL and the stored
 * resource_version is another: OUT_OF_RANGE. NOT_FOUND when it is gone. */
int store_update(struct store *store, enum store_kind kind, const ProtobufCMessage *message,
                 const struct store_index *index, const char *expected_version, struct error *err);
int store_delete(struct store *store, enum store_kind kind, const char *uid, struct error *err);

int store_get_by_uid(struct store *store, enum store_kind kind, const char *uid,
                     struct arena *arena, ProtobufCMessage **ret, struct error *err);
int store_get_by_name(struct store *store, enum store_kind kind, const char *name,
                      struct arena *arena, ProtobufCMessage **ret, struct error *err);

enum store_hidden { STORE_VISIBLE_ONLY = 0, STORE_HIDDEN_ONLY, STORE_HIDDEN_AND_VISIBLE };

/* All conditions hold; an unset one holds for all. A zeroed filter takes all visible resources. */
struct store_filter {
    const char *space_uid;
    const char *owner_uid;
    const char *template_uid;
    uint64_t states; /* bit n: state n; 0 = any */
    enum store_hidden hidden;
};

enum store_order { STORE_BY_CREATION = 0, STORE_BY_NAME };

enum {
    STORE_PAGE_ITEMS_DEFAULT = 200,
    STORE_PAGE_ITEMS_MAX = 1000,
    STORE_PAGE_MAX = 10000,
};

struct store_page {
    uint32_t page;           /* from 0 */
    uint32_t items_per_page; /* 0 = STORE_PAGE_ITEMS_DEFAULT; more than the maximum counts as it */
    enum store_order order;
    bool is_descending;
};

struct store_list {
    ProtobufCMessage **items; /* count of them, in the arena */
    size_t count;
    uint32_t total_count;
    uint32_t items_per_page; /* as it was applied */
    bool has_more;
};

/* Counts the updates and deletions of a kind since the store was opened, those too that were rolled
 * back. While it stays the same, so does what was read. */
uint64_t store_changes(const struct store *store, enum store_kind kind);

/* One page. INVALID_ARGUMENT: page over STORE_PAGE_MAX; NOT_FOUND: an empty page but the first. */
int store_list(struct store *store, enum store_kind kind, const struct store_filter *filter,
               const struct store_page *page, struct arena *arena, struct store_list *ret,
               struct error *err);

/* Every match, in order of creation. */
int store_list_all(struct store *store, enum store_kind kind, const struct store_filter *filter,
                   struct arena *arena, struct store_list *ret, struct error *err);
int store_count(struct store *store, enum store_kind kind, const struct store_filter *filter,
                uint32_t *ret, struct error *err);

/* Deletes every match; ret_count may be NULL. */
int store_delete_all(struct store *store, enum store_kind kind, const struct store_filter *filter,
                     uint32_t *ret_count, struct error *err);

/* Tokens: only the SHA-256 of one is ever stored. */
enum { STORE_HASH_BYTES = 32 };

enum store_token_kind {
    STORE_TOKEN_ACCESS = 1,         /* subject: a Session */
    STORE_TOKEN_REFRESH = 2,        /* subject: a Session */
    STORE_TOKEN_AUTHENTICATION = 3, /* subject: a Credential */
    STORE_TOKEN_CLIENT_SECRET = 4,  /* subject: a Credential */
};

struct store_token {
    uint8_t hash[STORE_HASH_BYTES];
    enum store_token_kind kind;
    const char *subject_uid;
    int64_t expires_at_seconds; /* since 1970; 0 = never */
    uint32_t generation;        /* counts rotations of the subject */
};

/* ALREADY_EXISTS for a hash that is there. */
int store_token_insert(struct store *store, const struct store_token *token, struct error *err);

/* NOT_FOUND when it is not there. Expiry is the caller's to judge. subject_uid is in the arena. */
int store_token_get(struct store *store, const uint8_t hash[STORE_HASH_BYTES], struct arena *arena,
                    struct store_token *ret, struct error *err);
int store_token_delete(struct store *store, const uint8_t hash[STORE_HASH_BYTES],
                       struct error *err);

/* All of one subject's tokens of generations below the given one; UINT32_MAX for all. */
int store_token_delete_subject(struct store *store, const char *subject_uid,
                               uint32_t generation_below, struct error *err);
int store_token_delete_expired(struct store *store, int64_t now_seconds, struct error *err);

/* Finished images by their id (64 hex digits), with what is known of them as a JSON text. */
struct store_image {
    const char *id;
    const char *json;
    int64_t created_at_seconds;
};
int store_image_put(struct store *store, const struct store_image *image, struct error *err);
int store_image_get(struct store *store, const char *id, struct arena *arena,
                    struct store_image *ret, struct error *err);
int store_image_delete(struct store *store, const char *id, struct error *err);

/* Oldest first. */
int store_image_list(struct store *store, struct arena *arena, struct store_image **ret,
                     size_t *ret_count, struct error *err);

/* Single values under a name. A missing one is NOT_FOUND; a NULL value deletes. */
int store_setting_put(struct store *store, const char *key, const char *value, struct error *err);
int store_setting_get(struct store *store, const char *key, struct arena *arena, const char **ret,
                      struct error *err);

#endif
