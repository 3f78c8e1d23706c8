#ifndef SERVICES_CHANGE_OUTCOME_H
#define SERVICES_CHANGE_OUTCOME_H

#include "gateway/request.h"
#include "gateway/state/store.h"

/* What the audit log keeps of a change to who may do what: the set of policies that is in force
 * now, and a unified diff of the resources, cut at CHANGE_DIFF_MAX_BYTES. */
enum { CHANGE_DIFF_MAX_BYTES = 32 << 10 };

void change_outcome_set(struct request *r, struct str diff);

/* The same for one resource; `before` or `after` may be NULL. */
void change_outcome_set_resource(struct request *r, const ProtobufCMessage *before,
                                 const ProtobufCMessage *after);

/* The same for resources that change together, one diff behind the other: begin, add each, then end
 * when it was done, or buf_free() when it was not. */
void change_diff_begin(struct buf *diff);
void change_diff_add(struct request *r, struct buf *diff, const ProtobufCMessage *before,
                     const ProtobufCMessage *after);

/* Those of a kind that are about to be deleted. */
int change_diff_add_deleted(struct request *r, struct buf *diff, enum store_kind kind,
                            const struct store_filter *filter, struct error *err);
void change_diff_end(struct request *r, struct buf *diff);

#endif
