#ifndef TESTS_REQUEST_HARNESS_H
#define TESTS_REQUEST_HARNESS_H

#include <stdbool.h>
#include <uv.h>

#include "gateway/config.h"
#include "gateway/edge/call_internal.h"
#include "gateway/edge/connection.h"
#include "gateway/gateway.h"
#include "gateway/identity/authenticate.h"
#include "gateway/request.h"
#include "gateway/rpc/codec.h"
#include "gateway/state/resource.h"
#include "gateway/state/store.h"

/* A set-up gateway with a real store in a folder of its own, and calls made without an edge: the
 * stages authenticate, decode, resolve, authorize and handle run as request.c runs them, and what
 * the handler answers is caught. */
struct harness {
    char folder[64];
    char path[96];
    struct arena arena;
    struct gateway_config config;
    struct gateway gateway;
    uv_loop_t loop;
    struct error err;
    char admin_token[64]; /* authentication token of the first administrator */

    size_t request_bytes_max; /* of a call's arena */

    /* The last call. */
    int status; /* 0 or enum status */
    char text[ERROR_TEXT_MAX];
    const ProtobufCMessage *reply;      /* NULL unless status is 0; in `arena` */
    const char *outcome;                /* of its end record, "" for none; in `arena` */
    struct listener_identity *listener; /* set: calls come through this workspace's socket */
};

void harness_open(struct harness *h);
void harness_close(struct harness *h);

/* Makes a user (HUMAN or WORKLOAD) as the administrator and logs in as him: an access token, in the
 * arena. */
const char *harness_user(struct harness *h, const char *name, const char *type);

/* Logs the first administrator in. */
const char *harness_admin(struct harness *h);

/* One call with an access token (NULL: none); the request is JSON, strictly read. Returns
 * h->status. */
int harness_call(struct harness *h, const char *token, const char *path, const char *json);

/* The same in two steps, for several calls at a time: the second waits for the answer, or lets the
 * client go away before it has come. */
struct harness_pending;
struct harness_pending *harness_begin(struct harness *h, const char *token, const char *path,
                                      const char *json);
int harness_end(struct harness *h, struct harness_pending *pending);
void harness_abandon(struct harness *h, struct harness_pending *pending);

/* The same with a refresh token. */
int harness_call_refresh(struct harness *h, const char *refresh_token, const char *path);

/* The same with any one header. */
int harness_call_header(struct harness *h, const char *header, const char *value, const char *path,
                        const char *json);

/* As harness_call(), with paths of MainService of cordium.v1 and core.v1 by their last word. */
int harness_cordium(struct harness *h, const char *token, const char *method, const char *json);
int harness_core(struct harness *h, const char *token, const char *method, const char *json);

/* Fails the test unless the last call gave that status and its text holds `part`. */
void harness_expect(const struct harness *h, int status, const char *part);

/* The last reply as JSON; in the arena. */
const char *harness_json(struct harness *h);

#endif
