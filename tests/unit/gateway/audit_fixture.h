#ifndef TESTS_AUDIT_FIXTURE_H
#define TESTS_AUDIT_FIXTURE_H

#include <check.h>
#include <stdbool.h>
#include <uv.h>

#include "gateway/audit/audit_log.h"
#include "gateway/auditfile/verify.h"
#include "policy/base/arena.h"

/* An audit log in a folder of its own, with a key, an anchor and a clock that the test moves. */
struct audit_fixture {
    char folder[64]; /* state: audit.key, audit.pub, log/ */
    char dir[96];    /* folder/log */
    char path[128];  /* dir/audit.jsonl */
    char key[96], public_key[96];
    uv_loop_t loop;
    struct audit_log *log;
    struct audit_log_options options; /* for the next open */
    struct error err;
    int done_count;
    int last_status;
    int64_t clock_offset_ns; /* to the system's */
    /* What on_checkpoint told; the next open is given it, as the gateway would. */
    bool has_anchor;
    struct chain anchor;
    int anchor_syncs;
    uint64_t random;
    struct arena arena;
    struct verify_report report;
};

/* A large file, many lines and much time until a checkpoint; nothing is deleted. */
void audit_begin(struct audit_fixture *f);

/* The same in memory: for tests that open and close it a thousand times. */
void audit_begin_in_memory(struct audit_fixture *f);
void audit_end(struct audit_fixture *f);

int audit_try_open(struct audit_fixture *f);
void audit_open(struct audit_fixture *f);
void audit_close(struct audit_fixture *f);

/* Runs the loop until nothing is left to do in it. */
void audit_run(struct audit_fixture *f);

/* Appends a record with a callback that counts. */
int audit_append(struct audit_fixture *f, const char *json);
void audit_append_many(struct audit_fixture *f, unsigned count, unsigned bytes);

/* The report of the whole log; `anchor` may be NULL. */
const struct verify_report *audit_verify(struct audit_fixture *f, const struct chain *anchor);
void audit_expect_intact(struct audit_fixture *f);
void audit_expect_fault(struct audit_fixture *f, enum verify_fault fault);

/* A whole file of the log, in the arena, NUL-terminated. */
struct str audit_read_file(struct audit_fixture *f, const char *name);
void audit_write_file(struct audit_fixture *f, const char *name, struct str content);
bool audit_has_file(struct audit_fixture *f, const char *name);
char *audit_file_path(struct audit_fixture *f, const char *name);
void audit_set_time(struct audit_fixture *f, const char *name, int64_t seconds);
unsigned audit_count_files(struct audit_fixture *f, const char *suffix);

/* Names of the files in their order; in the arena. */
size_t audit_list(struct audit_fixture *f, struct segment **ret);

#endif
