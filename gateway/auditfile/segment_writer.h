#ifndef AUDITFILE_SEGMENT_WRITER_H
#define AUDITFILE_SEGMENT_WRITER_H

#include <stdint.h>

#include "gateway/auditfile/segment.h"
#include "policy/base/status.h"
#include "policy/base/str.h"

/* A finished file, plain or compressed, made beside the place that it is for: what stands there
 * counts until the new one is whole and on the disk. */
struct segment_writer;

/* segment: tells the name and whether it is compressed. */
int segment_writer_open(int dir_fd, const struct segment *segment, struct segment_writer **ret,
                        struct error *err);

/* Whole lines with their newlines. UNAVAILABLE: the disk is full, or fails. */
int segment_writer_add(struct segment_writer *w, struct str lines, struct error *err);

/* Syncs it, and gives it the time of the last line. Nothing may be added after. */
int segment_writer_finish(struct segment_writer *w, int64_t modified_seconds, struct error *err);

/* The name that it has until segment_writer_commit(). */
const char *segment_writer_temporary_name(const struct segment_writer *w);

/* Puts the finished file in its place, durably. */
int segment_writer_commit(struct segment_writer *w, struct error *err);

/* What was not committed is removed. NULL is fine. */
void segment_writer_free(struct segment_writer *w);

/* Removes what a crash left half made. */
void segment_writer_clean(int dir_fd);

#endif
