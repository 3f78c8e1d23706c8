#ifndef TELEMETRY_METRICS_GATHER_H
#define TELEMETRY_METRICS_GATHER_H

struct gateway;

/* Brings those metrics up to date that are looked up and not counted: what lives, waits and lags at
 * this moment. Called when somebody reads them. */
void metrics_gather(struct gateway *g);

#endif
