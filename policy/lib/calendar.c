#include "policy/lib/calendar.h"

enum { SECONDS_PER_DAY = 86400 };

/* Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": eras of 400 years that start on
 * 1 March. */
int64_t calendar_days(int64_t year, unsigned month, unsigned day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    unsigned year_of_era = (unsigned)(year - era * 400);
    unsigned day_of_year = (153 * (month + (month > 2 ? 0U - 3 : 9)) + 2) / 5 + day - 1;
    unsigned day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + (int64_t)day_of_era - 719468;
}

bool calendar_is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

unsigned calendar_month_days(int64_t year, unsigned month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && calendar_is_leap(year) ? 1U : 0U);
}

struct civil calendar_civil(int64_t seconds)
{
    int64_t days = seconds / SECONDS_PER_DAY;
    int64_t rest = seconds % SECONDS_PER_DAY;
    if (rest < 0) {
        rest += SECONDS_PER_DAY;
        days--;
    }
    int64_t shifted = days + 719468;
    int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
    unsigned day_of_era = (unsigned)(shifted - era * 146097);
    unsigned year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned mp = (5 * day_of_year + 2) / 153;
    struct civil c = {
        .year = (int64_t)year_of_era + era * 400,
        .month = mp < 10 ? mp + 3 : mp - 9,
        .day = day_of_year - (153 * mp + 2) / 5 + 1,
        .hour = (unsigned)(rest / 3600),
        .minute = (unsigned)(rest / 60 % 60),
        .second = (unsigned)(rest % 60),
        .weekday = (unsigned)(((days + 4) % 7 + 7) % 7),
    };
    c.year += c.month <= 2;
    c.day_of_year = (unsigned)(days - calendar_days(c.year, 1, 1));
    return c;
}

/* Exactly `count` digits. */
static bool take_number(struct str *s, size_t count, unsigned *ret)
{
    unsigned v = 0;
    if (s->len < count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (s->ptr[i] < '0' || s->ptr[i] > '9') {
            return false;
        }
        v = v * 10 + (unsigned)(s->ptr[i] - '0');
    }
    *s = str_make(s->ptr + count, s->len - count);
    *ret = v;
    return true;
}

static bool take_char(struct str *s, char c)
{
    if (s->len == 0 || s->ptr[0] != c) {
        return false;
    }
    *s = str_make(s->ptr + 1, s->len - 1);
    return true;
}

static bool take_fraction(struct str *s, uint32_t *ret_nanos)
{
    uint32_t nanos = 0;
    size_t digits = 0;
    while (digits < 9 && s->len > 0 && s->ptr[0] >= '0' && s->ptr[0] <= '9') {
        nanos = nanos * 10 + (uint32_t)(s->ptr[0] - '0');
        *s = str_make(s->ptr + 1, s->len - 1);
        digits++;
    }
    for (size_t i = digits; i < 9; i++) {
        nanos *= 10;
    }
    *ret_nanos = nanos;
    return digits > 0;
}

/* Z or +HH:MM, to seconds east. */
static bool take_offset(struct str *s, int64_t *ret_seconds)
{
    unsigned hours;
    unsigned minutes;
    *ret_seconds = 0;
    if (take_char(s, 'Z')) {
        return true;
    }
    bool negative = take_char(s, '-');
    if (!negative && !take_char(s, '+')) {
        return false;
    }
    if (!take_number(s, 2, &hours) || !take_char(s, ':') || !take_number(s, 2, &minutes) ||
        hours > 23 || minutes > 59) {
        return false;
    }
    *ret_seconds = (int64_t)hours * 3600 + (int64_t)minutes * 60;
    *ret_seconds = negative ? -*ret_seconds : *ret_seconds;
    return true;
}

bool calendar_parse_rfc3339(struct str s, int64_t *ret_seconds, uint32_t *ret_nanos)
{
    unsigned year;
    unsigned month;
    unsigned day;
    unsigned hour;
    unsigned minute;
    unsigned second;
    int64_t offset;
    uint32_t nanos = 0;
    if (!take_number(&s, 4, &year) || !take_char(&s, '-') || !take_number(&s, 2, &month) ||
        !take_char(&s, '-') || !take_number(&s, 2, &day) || !take_char(&s, 'T') ||
        !take_number(&s, 2, &hour) || !take_char(&s, ':') || !take_number(&s, 2, &minute) ||
        !take_char(&s, ':') || !take_number(&s, 2, &second)) {
        return false;
    }
    if (take_char(&s, '.') && !take_fraction(&s, &nanos)) {
        return false;
    }
    if (!take_offset(&s, &offset) || s.len > 0) {
        return false;
    }
    if (month < 1 || month > 12 || day < 1 || day > calendar_month_days(year, month) || hour > 23 ||
        minute > 59 || second > 59) {
        return false;
    }
    *ret_seconds = calendar_days(year, month, day) * SECONDS_PER_DAY + hour * 3600L + minute * 60L +
                   second - offset;
    *ret_nanos = nanos;
    return true;
}
