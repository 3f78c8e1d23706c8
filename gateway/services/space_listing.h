#ifndef SERVICES_SPACE_LISTING_H
#define SERVICES_SPACE_LISTING_H

#include "gateway/request.h"
#include "gateway/state/store.h"

/* Lists of what lives in Spaces: with a spaceRef that Space's, without one those of all Spaces that
 * the actor is a member of. */

/* Resolver: the Space of the reference, when there is one. */
int space_listing_resolve(struct request *r, const Meta__ObjectReference *space_ref,
                          struct error *err);

/* `show` as in resource_list_reply(). */
void space_listing_reply(struct request *r, enum store_kind kind,
                         const Meta__CommonListOptions *common,
                         void (*show)(ProtobufCMessage *item));

#endif
