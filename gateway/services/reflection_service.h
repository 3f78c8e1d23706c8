#ifndef SERVICES_REFLECTION_SERVICE_H
#define SERVICES_REFLECTION_SERVICE_H

/* grpc.reflection v1 and v1alpha, which differ in their package's name only. */
struct request;

void reflection_info_handle(struct request *r);

#endif
