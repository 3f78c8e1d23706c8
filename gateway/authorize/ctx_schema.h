#ifndef AUTHORIZE_CTX_SCHEMA_H
#define AUTHORIZE_CTX_SCHEMA_H

#include "policy/decide/shape.h"

/* What `ctx` can hold, for checkers and tests of policies: derived from the lists that
 * activation.c makes it from and from the descriptors of the messages in it. */
struct policy_shape ctx_schema(void);

#endif
