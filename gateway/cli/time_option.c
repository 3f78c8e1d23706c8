#include "gateway/cli/time_option.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

enum { DAY_SECONDS = 86400, NANOS_DIGITS = 9 };

static const int64_t ago_seconds_max = (int64_t)100 * 366 * DAY_SECONDS;

struct moment {
    int64_t seconds;
    uint32_t nanos;
};

/* Exactly `digits` of them. */
static bool take_digits(const char **at, unsigned digits, int *ret)
{
    int v = 0;
    for (unsigned i = 0; i < digits; i++) {
        char c = (*at)[i];
        if (c < '0' || c > '9') {
            return false;
        }
        v = v * 10 + (c - '0');
    }
    *at += digits;
    *ret = v;
    return true;
}

static bool take_char(const char **at, char c)
{
    if (**at != c) {
        return false;
    }
    ++*at;
    return true;
}

static int64_t seconds_of_unit(char unit)
{
    switch (unit) {
    case 's':
        return 1;
    case 'm':
        return 60;
    case 'h':
        return 3600;
    case 'd':
        return DAY_SECONDS;
    case 'w':
        return 7 * DAY_SECONDS;
    default:
        return 0;
    }
}

/* "1h30m" */
static bool parse_ago(const char *text, int64_t *ret_seconds)
{
    int64_t sum = 0;
    const char *at = text;
    while (*at) {
        int64_t n = 0;
        const char *digits = at;
        for (; *at >= '0' && *at <= '9' && n <= ago_seconds_max; at++) {
            n = n * 10 + (*at - '0');
        }
        int64_t unit = seconds_of_unit(*at);
        if (at == digits || unit == 0 || n > ago_seconds_max) {
            return false;
        }
        sum += n * unit;
        at++;
        if (sum > ago_seconds_max) {
            return false;
        }
    }
    *ret_seconds = sum;
    return at != text;
}

static bool take_date(const char **at, struct tm *tm)
{
    if (!take_digits(at, 4, &tm->tm_year) || !take_char(at, '-') ||
        !take_digits(at, 2, &tm->tm_mon) || !take_char(at, '-') ||
        !take_digits(at, 2, &tm->tm_mday)) {
        return false;
    }
    tm->tm_year -= 1900;
    tm->tm_mon -= 1;
    return tm->tm_year >= 0;
}

static bool take_fraction(const char **at, uint32_t *ret_nanos)
{
    uint32_t nanos = 0;
    unsigned digits = 0;
    for (; **at >= '0' && **at <= '9' && digits < NANOS_DIGITS; ++*at, digits++) {
        nanos = nanos * 10 + (uint32_t)(**at - '0');
    }
    for (unsigned i = digits; i < NANOS_DIGITS; i++) {
        nanos *= 10;
    }
    *ret_nanos = nanos;
    return digits > 0;
}

/* "10:00", "10:00:05", "10:00:05.25" */
static bool take_time_of_day(const char **at, struct tm *tm, uint32_t *ret_nanos)
{
    if (!take_digits(at, 2, &tm->tm_hour) || !take_char(at, ':') ||
        !take_digits(at, 2, &tm->tm_min)) {
        return false;
    }
    if (take_char(at, ':') && (!take_digits(at, 2, &tm->tm_sec) ||
                               (take_char(at, '.') && !take_fraction(at, ret_nanos)))) {
        return false;
    }
    return tm->tm_hour < 24 && tm->tm_min < 60 && tm->tm_sec < 60;
}

/* "Z", "+02:00"; nothing is UTC. */
static bool take_offset(const char **at, int64_t *ret_seconds)
{
    int hours = 0;
    int minutes = 0;
    *ret_seconds = 0;
    if (!**at || take_char(at, 'Z')) {
        return true;
    }
    int sign = **at == '-' ? -1 : 1;
    if ((!take_char(at, '+') && !take_char(at, '-')) || !take_digits(at, 2, &hours) ||
        !take_char(at, ':') || !take_digits(at, 2, &minutes) || hours > 23 || minutes > 59) {
        return false;
    }
    *ret_seconds = (int64_t)sign * (hours * 3600 + minutes * 60);
    return true;
}

static bool parse_calendar(const char *text, struct moment *ret)
{
    struct tm tm = {0};
    int64_t offset = 0;
    const char *at = text;
    if (!take_date(&at, &tm)) {
        return false;
    }
    if ((take_char(&at, 'T') || take_char(&at, ' ')) &&
        (!take_time_of_day(&at, &tm, &ret->nanos) || !take_offset(&at, &offset))) {
        return false;
    }
    struct tm asked = tm;
    time_t t = timegm(&tm);
    /* timegm() makes 2026-03-02 of 2026-02-30. */
    if (*at || tm.tm_mday != asked.tm_mday || tm.tm_mon != asked.tm_mon) {
        return false;
    }
    ret->seconds = (int64_t)t - offset;
    return true;
}

static bool parse_word(const char *text, int64_t now_seconds, struct moment *ret)
{
    int64_t midnight = now_seconds - now_seconds % DAY_SECONDS;
    if (strcmp(text, "now") == 0) {
        ret->seconds = now_seconds;
    } else if (strcmp(text, "today") == 0) {
        ret->seconds = midnight;
    } else if (strcmp(text, "yesterday") == 0) {
        ret->seconds = midnight - DAY_SECONDS;
    } else {
        return false;
    }
    return true;
}

int time_option_parse(const char *option, const char *text, int64_t now_seconds,
                      int64_t *ret_seconds, uint32_t *ret_nanos, struct error *err)
{
    struct moment m = {0};
    int64_t ago = 0;
    if (parse_ago(text, &ago)) {
        m.seconds = now_seconds - ago;
    } else if (!parse_word(text, now_seconds, &m) && !parse_calendar(text, &m)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s '%s': expected how long ago (90s, 30m, 2h, 7d, 1h30m), today, "
                         "yesterday, or a time in UTC (2026-11-30, 2026-11-30T10:00; else with an "
                         "offset: 2026-11-30T10:00+02:00)",
                         option, text);
    }
    *ret_seconds = m.seconds;
    *ret_nanos = m.nanos;
    return 0;
}
