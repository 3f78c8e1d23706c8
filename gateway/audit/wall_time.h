#ifndef AUDIT_WALL_TIME_H
#define AUDIT_WALL_TIME_H

#include <stdbool.h>
#include <stdint.h>

enum { WALL_TIME_TEXT_SIZE = 40 };

/* RFC 3339 in UTC, with 0, 3, 6 or 9 digits after the point, as protobuf's JSON mapping has it:
 * "2026-11-29T20:00:45.120Z". False for a time outside the years 1 to 9999. */
bool wall_time_format(int64_t seconds, uint32_t nanos, char ret[WALL_TIME_TEXT_SIZE]);

/* The same for nanoseconds since 1970, which always fit. */
void wall_time_format_ns(int64_t ns, char ret[WALL_TIME_TEXT_SIZE]);

#endif
