#ifndef CLI_TIME_OPTION_H
#define CLI_TIME_OPTION_H

#include <stdint.h>

#include "policy/base/status.h"

/* A time as people give it: how long ago ("90s", "2h", "1h30m", "7d", "2w"), "now", "today",
 * "yesterday" (when they began), a date, or a date and a time of day ("2026-11-30T10:00",
 * "2026-11-30 10:00:05.250", with "Z" or "+02:00" behind it). Everything is UTC unless it says
 * otherwise, as the log is.
 *
 * now_seconds  since 1970
 *
 * INVALID_ARGUMENT names the option, what was given, and the forms. */
int time_option_parse(const char *option, const char *text, int64_t now_seconds,
                      int64_t *ret_seconds, uint32_t *ret_nanos, struct error *err);

#endif
