#ifndef LIB_CALENDAR_H
#define LIB_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/base/str.h"

/* A day of the proleptic Gregorian calendar, and the time in it. */
struct civil {
    int64_t year;
    unsigned month; /* 1..12 */
    unsigned day;   /* 1..31 */
    unsigned hour;
    unsigned minute;
    unsigned second;
    unsigned weekday;     /* 0 = Sunday */
    unsigned day_of_year; /* 0..365 */
};

/* Days since 1970-01-01. */
int64_t calendar_days(int64_t year, unsigned month, unsigned day);
struct civil calendar_civil(int64_t seconds);
unsigned calendar_month_days(int64_t year, unsigned month);
bool calendar_is_leap(int64_t year);

/* Strict RFC 3339 with upper-case T and Z and 1 to 9 digits of fraction; years 0001..9999. */
bool calendar_parse_rfc3339(struct str s, int64_t *ret_seconds, uint32_t *ret_nanos);

#endif
