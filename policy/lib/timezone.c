#include "policy/lib/timezone.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/lib/calendar.h"

/* Reads the compiled tz database (RFC 8536, "The Time Zone Information Format"). A program with
 * a literal zone reads the file once, when it is compiled. */

static const char database[] = "/usr/share/zoneinfo/";

enum {
    NAME_BYTES_MAX = 64,
    FILE_BYTES_MAX = 64 << 10,
    HEADER_BYTES = 44,
    TYPE_BYTES = 6,
    TYPES_MAX = 256,
};

/* When summer time starts or ends: month, week (5: last), weekday; or a day of the year. */
struct rule {
    char form; /* 'M', 'J' (1..365, no leap day), 'N' (0..365) */
    unsigned month;
    unsigned week;
    unsigned day;
    int32_t time; /* seconds after local midnight */
};

/* The POSIX TZ string in the footer, for times after the last transition. */
struct footer {
    bool is_set;
    bool has_summer;
    int32_t standard_offset;
    int32_t summer_offset;
    struct rule start;
    struct rule end;
};

struct timezone_rules {
    size_t count;
    const uint8_t *times; /* big-endian 64-bit seconds, ascending */
    const uint8_t *types; /* index for each time */
    int32_t offsets[TYPES_MAX];
    int32_t first_offset; /* before the first transition */
    struct footer footer;
};

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t read_i64(const uint8_t *p)
{
    return (int64_t)((uint64_t)read_u32(p) << 32 | read_u32(p + 4));
}

/* hh[:mm[:ss]] with an optional sign, as in a POSIX TZ string. */
static bool take_time(struct str *s, int32_t *ret)
{
    int32_t sign = 1;
    int32_t unit = 3600;
    int32_t total = 0;
    if (s->len > 0 && (s->ptr[0] == '-' || s->ptr[0] == '+')) {
        sign = s->ptr[0] == '-' ? -1 : 1;
        *s = str_make(s->ptr + 1, s->len - 1);
    }
    for (int part = 0; part < 3; part++, unit /= 60) {
        int32_t v = 0;
        size_t digits = 0;
        while (s->len > 0 && s->ptr[0] >= '0' && s->ptr[0] <= '9' && digits < 3) {
            v = v * 10 + (s->ptr[0] - '0');
            *s = str_make(s->ptr + 1, s->len - 1);
            digits++;
        }
        if (digits == 0) {
            return false;
        }
        total += v * unit;
        if (s->len == 0 || s->ptr[0] != ':') {
            break;
        }
        *s = str_make(s->ptr + 1, s->len - 1);
    }
    *ret = sign * total;
    return true;
}

/* The abbreviation: letters, or anything in <>. */
static bool skip_abbreviation(struct str *s)
{
    size_t i = 0;
    if (s->len > 0 && s->ptr[0] == '<') {
        while (i < s->len && s->ptr[i] != '>') {
            i++;
        }
        i++;
    } else {
        while (i < s->len && (s->ptr[i] | 32) >= 'a' && (s->ptr[i] | 32) <= 'z') {
            i++;
        }
    }
    if (i == 0 || i > s->len) {
        return false;
    }
    *s = str_make(s->ptr + i, s->len - i);
    return true;
}

static bool take_unsigned(struct str *s, unsigned most, unsigned *ret)
{
    unsigned v = 0;
    size_t digits = 0;
    while (s->len > 0 && s->ptr[0] >= '0' && s->ptr[0] <= '9' && digits < 3) {
        v = v * 10 + (unsigned)(s->ptr[0] - '0');
        *s = str_make(s->ptr + 1, s->len - 1);
        digits++;
    }
    *ret = v;
    return digits > 0 && v <= most;
}

static bool take_char(struct str *s, char c)
{
    if (s->len == 0 || s->ptr[0] != c) {
        return false;
    }
    *s = str_make(s->ptr + 1, s->len - 1);
    return true;
}

static bool take_rule(struct str *s, struct rule *rule)
{
    bool ok;
    *rule = (struct rule){.form = 'N', .time = 7200};
    if (take_char(s, 'M')) {
        rule->form = 'M';
        ok = take_unsigned(s, 12, &rule->month) && rule->month > 0 && take_char(s, '.') &&
             take_unsigned(s, 5, &rule->week) && rule->week > 0 && take_char(s, '.') &&
             take_unsigned(s, 6, &rule->day);
    } else {
        rule->form = take_char(s, 'J') ? 'J' : 'N';
        ok = take_unsigned(s, 365, &rule->day);
    }
    return ok && (!take_char(s, '/') || take_time(s, &rule->time));
}

/* "CET-1CEST,M3.5.0,M10.5.0/3" */
static bool parse_footer(struct str s, struct footer *footer)
{
    int32_t west;
    *footer = (struct footer){.is_set = true};
    if (!skip_abbreviation(&s) || !take_time(&s, &west)) {
        return false;
    }
    footer->standard_offset = -west;
    footer->summer_offset = 3600 - west;
    if (s.len == 0) {
        return true;
    }
    if (!skip_abbreviation(&s)) {
        return false;
    }
    footer->has_summer = true;
    if (s.len > 0 && s.ptr[0] != ',') {
        if (!take_time(&s, &west)) {
            return false;
        }
        footer->summer_offset = -west;
    }
    return take_char(&s, ',') && take_rule(&s, &footer->start) && take_char(&s, ',') &&
           take_rule(&s, &footer->end) && s.len == 0;
}

/* Seconds since 1970 of the rule's local moment, as if local time were UTC. */
static int64_t rule_moment(const struct rule *rule, int64_t year)
{
    int64_t days = calendar_days(year, 1, 1);
    if (rule->form == 'J') {
        days += rule->day - 1 + (calendar_is_leap(year) && rule->day >= 60 ? 1 : 0);
    } else if (rule->form == 'N') {
        days += rule->day;
    } else {
        days = calendar_days(year, rule->month, 1);
        int64_t weekday = ((days + 4) % 7 + 7) % 7;
        int64_t day = ((int64_t)rule->day - weekday + 7) % 7 + ((int64_t)rule->week - 1) * 7;
        while (day >= calendar_month_days(year, rule->month)) {
            day -= 7;
        }
        days += day;
    }
    return days * 86400 + rule->time;
}

static int32_t footer_offset(const struct footer *footer, int64_t seconds)
{
    if (!footer->has_summer) {
        return footer->standard_offset;
    }
    int64_t year = calendar_civil(seconds + footer->standard_offset).year;
    int64_t start = rule_moment(&footer->start, year) - footer->standard_offset;
    int64_t end = rule_moment(&footer->end, year) - footer->summer_offset;
    bool summer =
        start < end ? seconds >= start && seconds < end : seconds >= start || seconds < end;
    return summer ? footer->summer_offset : footer->standard_offset;
}

int32_t timezone_offset(const struct timezone_rules *zone, int64_t seconds)
{
    if (zone->count > 0 && seconds < read_i64(zone->times)) {
        return zone->first_offset;
    }
    if (zone->footer.is_set &&
        (zone->count == 0 || seconds >= read_i64(zone->times + (zone->count - 1) * 8))) {
        return footer_offset(&zone->footer, seconds);
    }
    if (zone->count == 0) {
        return zone->first_offset;
    }
    size_t low = 0;
    size_t high = zone->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (read_i64(zone->times + middle * 8) <= seconds) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return zone->offsets[zone->types[low]];
}

/* The counts of a header: RFC 8536 section 3.1. */
struct header {
    size_t isut;
    size_t isstd;
    size_t leap;
    size_t time;
    size_t type;
    size_t chars;
};

static bool read_header(struct str file, size_t at, struct header *h)
{
    if (file.len < at + HEADER_BYTES || memcmp(file.ptr + at, "TZif", 4) != 0) {
        return false;
    }
    const uint8_t *p = (const uint8_t *)file.ptr + at + 20;
    *h = (struct header){read_u32(p),      read_u32(p + 4),  read_u32(p + 8),
                         read_u32(p + 12), read_u32(p + 16), read_u32(p + 20)};
    return h->isut <= FILE_BYTES_MAX && h->isstd <= FILE_BYTES_MAX && h->leap <= FILE_BYTES_MAX &&
           h->time <= FILE_BYTES_MAX && h->type <= TYPES_MAX && h->type > 0 &&
           h->chars <= FILE_BYTES_MAX;
}

static size_t data_bytes(const struct header *h, size_t time_bytes)
{
    return h->time * (time_bytes + 1) + h->type * TYPE_BYTES + h->chars +
           h->leap * (time_bytes + 4) + h->isstd + h->isut;
}

static bool parse_file(struct str file, struct timezone_rules *zone)
{
    struct header h;
    if (!read_header(file, 0, &h) || file.ptr[4] < '2') {
        return false;
    }
    size_t at = HEADER_BYTES + data_bytes(&h, 4);
    if (at > file.len || !read_header(file, at, &h)) {
        return false;
    }
    at += HEADER_BYTES;
    size_t end = at + data_bytes(&h, 8);
    if (end > file.len) {
        return false;
    }
    zone->count = h.time;
    zone->times = (const uint8_t *)file.ptr + at;
    zone->types = zone->times + h.time * 8;
    const uint8_t *types = zone->types + h.time;
    for (size_t i = 0; i < h.type; i++) {
        zone->offsets[i] = (int32_t)read_u32(types + i * TYPE_BYTES);
    }
    for (size_t i = 0; i < h.time; i++) {
        if (zone->types[i] >= h.type) {
            return false;
        }
    }
    zone->first_offset = zone->offsets[0];
    struct str footer = str_make(file.ptr + end, file.len - end);
    if (footer.len >= 2 && footer.ptr[0] == '\n' && footer.ptr[footer.len - 1] == '\n') {
        footer = str_make(footer.ptr + 1, footer.len - 2);
        if (footer.len > 0 && !parse_footer(footer, &zone->footer)) {
            return false;
        }
    }
    return true;
}

/* The whole file in the arena; empty on any failure. */
static struct str read_file(struct arena *arena, const char *path)
{
    struct stat st;
    struct str file = STR_NONE;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd == -1) {
        return file;
    }
    char *data = NULL;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 &&
        st.st_size <= FILE_BYTES_MAX) {
        data = arena_alloc(arena, (size_t)st.st_size);
    }
    size_t len = 0;
    while (data && len < (size_t)st.st_size) {
        ssize_t n = read(fd, data + len, (size_t)st.st_size - len);
        if (n == -1 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        len += (size_t)n;
    }
    (void)close(fd);
    return str_make(data, data ? len : 0);
}

static bool is_zone_name(struct str name)
{
    if (name.len == 0 || name.len > NAME_BYTES_MAX || name.ptr[0] < 'A' || name.ptr[0] > 'Z' ||
        str_is(name, "Local")) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        bool ok = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_' ||
                  c == '+' || c == '-' || (c == '/' && name.ptr[i - 1] != '/');
        if (!ok) {
            return false;
        }
    }
    return name.ptr[name.len - 1] != '/';
}

/* [+-]HH:MM */
static bool parse_offset(struct str name, int32_t *ret)
{
    unsigned hours;
    unsigned minutes;
    bool negative = take_char(&name, '-');
    if (!negative) {
        (void)take_char(&name, '+');
    }
    if (name.len != 5 || name.ptr[2] != ':' || !take_unsigned(&name, 23, &hours) ||
        !take_char(&name, ':') || !take_unsigned(&name, 59, &minutes) || name.len != 0) {
        return false;
    }
    int32_t east = (int32_t)(hours * 3600 + minutes * 60);
    *ret = negative ? -east : east;
    return true;
}

const struct timezone_rules *timezone_load(struct arena *arena, struct str name)
{
    struct timezone_rules *zone = arena_zalloc(arena, sizeof *zone);
    if (!zone) {
        return NULL;
    }
    if (name.len == 0 || str_is(name, "UTC") || parse_offset(name, &zone->first_offset)) {
        return zone;
    }
    if (!is_zone_name(name)) {
        return NULL;
    }
    char path[sizeof database + NAME_BYTES_MAX];
    memcpy(path, database, sizeof database - 1);
    memcpy(path + sizeof database - 1, name.ptr, name.len);
    path[sizeof database - 1 + name.len] = '\0';
    struct str file = read_file(arena, path);
    return file.len > 0 && parse_file(file, zone) ? zone : NULL;
}
