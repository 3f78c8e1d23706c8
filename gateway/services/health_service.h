#ifndef SERVICES_HEALTH_SERVICE_H
#define SERVICES_HEALTH_SERVICE_H

/* grpc.health.v1.Health: SERVING, or NOT_SERVING while the gateway drains. */
struct request;

void health_check_handle(struct request *r);
void health_watch_handle(struct request *r);

#endif
