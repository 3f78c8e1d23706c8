#ifndef AUDITFILE_INDEX_UNREAD_H
#define AUDITFILE_INDEX_UNREAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "gateway/auditfile/index_scan.h"
#include "gateway/auditfile/segment.h"

/* Files of the log that cannot be read: what is answered does without their lines, and must say so.
 */

enum { INDEX_UNREAD_TEXT_SIZE = 160 };

struct index_unread {
    uint64_t file;                     /* sequence of its first line */
    char name[SEGMENT_NAME_SIZE];      /* as it was when it was read */
    char text[INDEX_UNREAD_TEXT_SIZE]; /* why */
    struct timespec changed;           /* how it stood on the disk */
    uint64_t inode, bytes;
    /* In a snapshot: by what stands around it; UINT64_MAX, INT64_MIN, INT64_MAX: not known. */
    uint64_t last_sequence;
    int64_t time_min, time_max;
};

/* Notes how the file of that name stands on the disk; zeroes when it is gone. */
void index_unread_stat(struct index_unread *u, int dir_fd);

/* Is it another by now: put back from a copy, or gone? */
bool index_unread_has_changed(const struct index_unread *u, int dir_fd);

/* Fills in last_sequence and times of all of a snapshot. */
void index_unread_place(struct index_snapshot *s);

/* May it have lines that the question wants? NULL: any. */
bool index_unread_may_match(const struct index_unread *u, const struct index_filter *filter,
                            const struct index_range *range);

#endif
