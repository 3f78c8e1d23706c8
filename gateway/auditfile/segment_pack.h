#ifndef AUDITFILE_SEGMENT_PACK_H
#define AUDITFILE_SEGMENT_PACK_H

#include <stdatomic.h>

#include "gateway/auditfile/segment.h"
#include "gateway/auditfile/tombstone.h"
#include "policy/base/status.h"

/* Work on finished files that takes long: for a thread of its own. `stop`, when not NULL, ends it
 * early, with CANCELLED, when it becomes true. A crash at any instant leaves the lines in at least
 * one file that counts. */

/* Replaces a plain file by its compressed form. What was written is read back and compared before
 * the plain file goes. UNAVAILABLE: the disk is full, or fails; then the plain file stays. */
int segment_pack(int dir_fd, const struct segment *plain, const atomic_bool *stop,
                 struct error *err);

/* What a tombstone tells of the whole file; `setting` is left alone, `name` is the segment's.
 * DATA_LOSS when its first or last line is none of ours. */
int segment_summarize(int dir_fd, const struct segment *segment, const atomic_bool *stop,
                      struct tombstone_file *ret, struct error *err);

/* The file goes, in both forms. */
int segment_remove(int dir_fd, const struct segment *segment, struct error *err);

#endif
