#include "gateway/audit/wall_time.h"

#include <stdio.h>
#include <time.h>

#include "policy/policy.h"

bool wall_time_format(int64_t seconds, uint32_t nanos, char ret[WALL_TIME_TEXT_SIZE])
{
    if (seconds < POLICY_TIMESTAMP_SECONDS_MIN || seconds > POLICY_TIMESTAMP_SECONDS_MAX ||
        nanos > 999999999) {
        return false;
    }
    struct tm tm;
    time_t t = seconds;
    if (!gmtime_r(&t, &tm)) {
        return false;
    }
    char fraction[12] = "";
    if (nanos % 1000000 == 0 && nanos != 0) {
        (void)snprintf(fraction, sizeof fraction, ".%03u", nanos / 1000000);
    } else if (nanos % 1000 == 0 && nanos != 0) {
        (void)snprintf(fraction, sizeof fraction, ".%06u", nanos / 1000);
    } else if (nanos != 0) {
        (void)snprintf(fraction, sizeof fraction, ".%09u", nanos);
    }
    int n =
        snprintf(ret, WALL_TIME_TEXT_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d%sZ", tm.tm_year + 1900,
                 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, fraction);
    return n > 0 && n < WALL_TIME_TEXT_SIZE;
}

void wall_time_format_ns(int64_t ns, char ret[WALL_TIME_TEXT_SIZE])
{
    int64_t seconds = ns / 1000000000;
    int64_t nanos = ns % 1000000000;
    if (nanos < 0) {
        seconds--;
        nanos += 1000000000;
    }
    (void)wall_time_format(seconds, (uint32_t)nanos, ret);
}
