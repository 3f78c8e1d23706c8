#ifndef GATEWAY_PLAIN_HTTP_H
#define GATEWAY_PLAIN_HTTP_H

#include <stdbool.h>

#include "gateway/edge/call.h"
#include "policy/base/str.h"

/* The few plain HTTP paths beside the RPCs. `owner` is the struct gateway. False: no such path. */
bool plain_http_request(void *owner, struct call *call, struct str method, struct str path,
                        struct str body);

/* Writes down a request that was refused before it meant anything. `owner` is the struct gateway.
 * The refusal does not wait for the line: nothing is done in either case. */
void plain_http_refused(void *owner, const struct call_refusal *refusal);

#endif
