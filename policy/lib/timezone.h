#ifndef LIB_TIMEZONE_H
#define LIB_TIMEZONE_H

#include <stdint.h>

#include "policy/base/arena.h"
#include "policy/base/str.h"

struct timezone_rules;

/* The zone of a name of the tz database ("Europe/Paris", case matters), of an offset ("+01:00",
 * "-05:30", "02:00"), or UTC for "" and "UTC". NULL when there is none, when the tz database is
 * not installed, or when the arena is full. Names are letters, digits, '_', '+', '-' and single
 * slashes: never a path out of the database. */
const struct timezone_rules *timezone_load(struct arena *arena, struct str name);

/* Seconds east of UTC at that moment. */
int32_t timezone_offset(const struct timezone_rules *zone, int64_t seconds);

#endif
