#ifndef AUTHORIZE_ACTIVATION_H
#define AUTHORIZE_ACTIVATION_H

#include "gateway/request.h"
#include "policy/base/arena.h"
#include "policy/policy.h"

/* `ctx`, as the rules see it. Everything is made when a rule asks for it.
 *
 *   user session groups device     who asks, in Octelium's shape (message_view.h); device never
 *   service namespace              the API itself: service.metadata.name "default.octelium-api"
 *   request.ip                     of the peer; absent inside a workspace
 *   request.grpc                   service, serviceFullName, package, method, http
 *   request.http                   method, path, host, scheme, headers (without secrets; the ones
 *                                  that list themselves are the common ones, any can be asked for)
 *   request.body                   the decoded message
 *   space template workspace       what the request touches; absent where it touches none
 *   run                            command (text), sha256 (hex), size (int), user, isRoot, env
 *                                  (names), workingDir, hasStdin, isTerminal, limits; all of it is
 *                                  there whenever run is
 *
 * The value points into r and arena, and must die before either. Returns 0 or -RESOURCE_EXHAUSTED.
 */
int activation_make(const struct request *r, struct arena *arena, struct policy_value *ret);

/* The address in call_origin()->peer: "192.0.2.7" of "192.0.2.7:4711", "2001:db8::1" of
 * "[2001:db8::1]:443"; empty for unix sockets. */
struct str activation_peer_ip(const char *peer);

#define ACTIVATION_SERVICE_NAME "default.octelium-api"
#define ACTIVATION_NAMESPACE_NAME "octelium-api"

#endif
