#ifndef AUDITFILE_INDEX_KNOWN_H
#define AUDITFILE_INDEX_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/auditfile/index_db.h"
#include "gateway/auditfile/segment.h"
#include "policy/base/bytes.h"
#include "policy/base/status.h"

/* Which of the listed files the index has as they are now: appends the first sequence of each, a
 * uint64_t, in their order. One that was compressed since is the same; one of another size is not.
 */
int index_known_list(struct index_db *db, int dir_fd, const struct segment *segments, size_t count,
                     struct buf *ret, struct error *err);
bool index_known_has(const struct buf *known, uint64_t file);

#endif
