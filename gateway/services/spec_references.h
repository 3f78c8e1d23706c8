#ifndef SERVICES_SPEC_REFERENCES_H
#define SERVICES_SPEC_REFERENCES_H

#include "gateway/request.h"
#include "policy/base/status.h"

/* What specs name must exist in the Space of r->touched. NOT_FOUND names the field's value and the
 * Space. */

/* Every from_secret in the message: "NAME" or the Secret's full name. */
int spec_check_secrets(struct request *r, const ProtobufCMessage *spec, struct error *err);

/* Every from_user_secret in the message, of the actor. */
int spec_check_user_secrets(struct request *r, const ProtobufCMessage *spec, struct error *err);

/* The Volumes of mounts. */
int spec_check_volumes(struct request *r, const Cordium__Workspace__Spec__Runtime *runtime,
                       struct error *err);

#endif
