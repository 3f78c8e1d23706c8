#ifndef TELEMETRY_BACKOFF_H
#define TELEMETRY_BACKOFF_H

#include <stdint.h>

/* How long to wait before the next try: doubling from one second to half a minute, each time by
 * up to a quarter less or more, so that many gateways do not come at once. */
struct backoff {
    unsigned failures; /* in a row */
};

enum { BACKOFF_FIRST_MS = 1000, BACKOFF_LAST_MS = 30000, BACKOFF_ASKED_MAX_MS = 300000 };

/* asked_ms: what the receiver asked for (Retry-After), at least that long but no longer than
 * BACKOFF_ASKED_MAX_MS; 0: it did not. random: any bits. */
uint64_t backoff_next_ms(struct backoff *b, uint64_t asked_ms, uint32_t random);

void backoff_reset(struct backoff *b);

#endif
