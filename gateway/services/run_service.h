#ifndef SERVICES_RUN_SERVICE_H
#define SERVICES_RUN_SERVICE_H

#include "gateway/request.h"

/* cordium.ext.v1.RunService: a program run once in a sandbox of its own (oneshot.h). */
int run_resolve(struct request *r, struct error *err);
int run_replay_resolve(struct request *r, struct error *err);
void run_handle(struct request *r);
void run_stream_handle(struct request *r);
void run_get_handle(struct request *r);
void run_list_handle(struct request *r);
void run_cancel_handle(struct request *r);
void run_replay_handle(struct request *r);

/* The RPC behind a plain path: POST /v1/run. The empty text for others. */
struct str run_service_alias(struct str path);

#endif
