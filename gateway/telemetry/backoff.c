#include "gateway/telemetry/backoff.h"

uint64_t backoff_next_ms(struct backoff *b, uint64_t asked_ms, uint32_t random)
{
    uint64_t ms = BACKOFF_FIRST_MS;
    for (unsigned i = 0; i < b->failures && ms < BACKOFF_LAST_MS; i++) {
        ms *= 2;
    }
    ms = ms < BACKOFF_LAST_MS ? ms : BACKOFF_LAST_MS;
    ms = ms - ms / 4 + random % (ms / 2 + 1);
    b->failures++;
    asked_ms = asked_ms < BACKOFF_ASKED_MAX_MS ? asked_ms : BACKOFF_ASKED_MAX_MS;
    return ms > asked_ms ? ms : asked_ms;
}

void backoff_reset(struct backoff *b)
{
    b->failures = 0;
}
