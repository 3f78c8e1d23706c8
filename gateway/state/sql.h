#ifndef GATEWAY_STATE_SQL_H
#define GATEWAY_STATE_SQL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* SQLite with the few calls that the store needs, and with its settings made safe. For one thread.
 *
 *     struct sql_statement *st;
 *     int status = sql_prepare(db, "SELECT json FROM image WHERE id = ?1", &st, err);
 *     if (status == 0) {
 *         sql_bind_text(st, 1, id);
 *         status = sql_step(st, err); // 1: a row, 0: no more, negative: failed
 *         …
 *         sql_reset(st);
 *     }
 */
struct sql;
struct sql_statement;

/* Makes the file (mode 0600) when it is missing, and locks it for this process alone: UNAVAILABLE
 * when another one keeps it locked for more than two seconds. FAILED_PRECONDITION when the file
 * exists and is no database, or not one with this application id. */
int sql_open(const char *path, int32_t application_id, struct sql **ret, struct error *err);
void sql_close(struct sql *db); /* NULL is fine */

/* Several statements without parameters or results. */
int sql_run(struct sql *db, const char *text, struct error *err);

/* The number that a statement without parameters gives: a count, a PRAGMA. */
int sql_query_int(struct sql *db, const char *text, int64_t *ret, struct error *err);

/* A statement that the database keeps for the next time; text must be made of constants. It must be
 * reset before it is prepared again. */
int sql_prepare(struct sql *db, const char *text, struct sql_statement **ret, struct error *err);

/* Parameters count from 1. Texts and blobs are borrowed until sql_reset(). */
void sql_bind_text(struct sql_statement *st, int index, const char *text); /* NULL binds "" */
void sql_bind_blob(struct sql_statement *st, int index, const void *bytes, size_t len);
void sql_bind_int(struct sql_statement *st, int index, int64_t value);

/* Errors: ALREADY_EXISTS for a broken constraint, RESOURCE_EXHAUSTED for a full disk, else
 * INTERNAL. A failed bind shows here. */
int sql_step(struct sql_statement *st, struct error *err);
void sql_reset(struct sql_statement *st);

/* sql_step() for what gives no rows, with sql_reset(). */
int sql_finish(struct sql_statement *st, struct error *err);

/* Columns count from 0; text and bytes live until the next step. */
int64_t sql_column_int(struct sql_statement *st, int index);
struct str sql_column_text(struct sql_statement *st, int index);
struct str sql_column_blob(struct sql_statement *st, int index);

/* Rows touched by the last statement. */
int64_t sql_changes(const struct sql *db);
bool sql_in_transaction(const struct sql *db);

/* Whether commits wait until they are on the disk; they do after sql_open(). Not inside of a
 * transaction. */
int sql_set_sync(struct sql *db, bool is_on, struct error *err);

/* Waits until what was committed without a wait is on the disk. */
int sql_sync(struct sql *db, struct error *err);

/* Time spent in sql_run() and sql_finish(), and how often such a call ended outside of a
 * transaction, which is when the disk is waited for. */
void sql_write_time(const struct sql *db, uint64_t *ret_ns, uint64_t *ret_count);

#endif
