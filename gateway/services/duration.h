#ifndef SERVICES_DURATION_H
#define SERVICES_DURATION_H

#include <stdint.h>

#include "api/meta.pb-c.h"

/* Whole seconds of a duration as people write it; 0 when it is NULL or unset. Milliseconds are
 * rounded up, a month has 30 days. */
int64_t duration_seconds(const Meta__Duration *duration);

#endif
