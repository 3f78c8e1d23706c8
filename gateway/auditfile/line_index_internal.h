#ifndef AUDITFILE_LINE_INDEX_INTERNAL_H
#define AUDITFILE_LINE_INDEX_INTERNAL_H

#include <pthread.h>

#include "gateway/auditfile/index_rows.h"
#include "gateway/auditfile/index_unread.h"
#include "gateway/auditfile/line_index.h"

/* Shared by line_index.c and index_builder.c only. */

struct line_index {
    struct line_index_options options;
    char *dir;
    int dir_fd;
    struct index_db *db; /* NULL until it could be opened; then for good */
    pthread_t thread;
    bool has_thread;

    pthread_mutex_t lock;
    pthread_cond_t woken;   /* for the thread */
    pthread_cond_t changed; /* for whoever waits for it */
    /* Under the lock. */
    bool is_awake;
    bool is_stopping;
    bool is_damaged; /* the database is to be made anew */
    bool is_ready;   /* it has what it had before */
    struct error failure;
    unsigned generation;
    struct buf chunks;    /* struct index_chunk, by sequence; kept in the database */
    struct buf gaps;      /* uint64_t, ascending */
    struct buf refreshes; /* uint64_t */
    struct buf unread;    /* struct index_unread */
    const struct index_rows *tail;
    struct index_chunk tail_chunk; /* of it, as far as it may be read */
    uint64_t indexed_sequence;
};

/* What the thread tells. */
void line_index_publish_tail(struct line_index *ix, const struct index_rows *rows);
/* A chunk that is kept now, when it has rows; the tail is empty from here on. */
bool line_index_publish_kept_tail(struct line_index *ix, const struct index_chunk *chunk);
/* All chunks of a file that was a gap. */
bool line_index_publish_file(struct line_index *ix, uint64_t file, const struct buf *chunks);
void line_index_unpublish_file(struct line_index *ix, uint64_t file);
bool line_index_add_gap(struct line_index *ix, uint64_t file);
void line_index_remove_gap(struct line_index *ix, uint64_t file);
/* A file that was a gap cannot be read. */
bool line_index_give_up_file(struct line_index *ix, const struct index_unread *unread);
/* It is gone, or will be read anew. */
void line_index_forget_unread(struct line_index *ix, uint64_t file);
bool line_index_is_stopping(struct line_index *ix);

/* The work of the thread: fills the index and follows the log, until it must stop or something
 * fails. */
int index_builder_run(struct line_index *ix, struct error *err);

#endif
