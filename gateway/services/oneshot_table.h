#ifndef SERVICES_ONESHOT_TABLE_H
#define SERVICES_ONESHOT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "api/ext.pb-c.h"
#include "executor/client/executor_client.h"
#include "policy/base/arena.h"
#include "policy/base/status.h"

/* Runs that live, and the results that are kept: in the store, for the time and up to the number
 * and sum of bytes that `runs` of the configuration says, the oldest go first. What lists need of
 * the kept ones is in memory. */
struct gateway;
struct oneshot;
struct oneshot_table;

/* Reads what is in the store. Runs that an earlier gateway left unended are lost. */
int oneshot_table_new(struct gateway *g, struct oneshot_table **ret, struct error *err);
void oneshot_table_free(struct oneshot_table *table);

/* The name in the store of a run with that key of that user. */
void oneshot_key_name(const char *owner_uid, const char *key, char ret[80]);

/* Live ones; NULL when there is none. */
struct oneshot *oneshot_table_find(struct oneshot_table *table, const char *id);
struct oneshot *oneshot_table_find_name(struct oneshot_table *table, const char *name);
/* Live ones, of all and of one user. NULL has none. */
unsigned oneshot_table_count(const struct oneshot_table *table);
unsigned oneshot_table_count_of(const struct oneshot_table *table, const char *owner_uid);
/* Also of one whose sandbox is being taken down. */
struct oneshot *oneshot_table_find_sandbox(struct oneshot_table *table,
                                           const struct executor_uuid *id);
bool oneshot_table_has_sandbox(struct oneshot_table *table, const struct executor_uuid *id);

/* Takes the key, if there is one, before anything happens: ALREADY_EXISTS. */
int oneshot_table_insert(struct oneshot_table *table, struct oneshot *o, const char *key,
                         struct error *err);

/* The end: the result is stored; or the run never happened. */
void oneshot_table_keep(struct oneshot_table *table, struct oneshot *o,
                        const Ext__RunResult *result);
void oneshot_table_forget(struct oneshot_table *table, struct oneshot *o);
void oneshot_table_remove(struct oneshot_table *table, struct oneshot *o);

/* Kept results. NOT_FOUND; another user's is NOT_FOUND too. */
int oneshot_table_load(struct oneshot_table *table, const char *id, const char *owner_uid,
                       struct arena *arena, Ext__RunResult **ret, struct error *err);
int oneshot_table_load_name(struct oneshot_table *table, const char *name, struct arena *arena,
                            Ext__RunResult **ret, struct error *err);

/* The same with its inputs, when they were kept. owner_uid NULL: whoever's it is. */
int oneshot_table_load_whole(struct oneshot_table *table, const char *id, const char *owner_uid,
                             struct arena *arena, Ext__RunResult **ret, struct error *err);

/* Of one user, newest first, live ones too. INVALID_ARGUMENT: count_max is over the maximum. */
int oneshot_table_list(struct oneshot_table *table, const char *owner_uid, bool only_active,
                       uint32_t count_max, struct arena *arena, Ext__ListRunsResponse *ret,
                       struct error *err);

#endif
