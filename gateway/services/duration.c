#include "gateway/services/duration.h"

#include <stddef.h>

int64_t duration_seconds(const Meta__Duration *duration)
{
    if (!duration) {
        return 0;
    }
    switch ((int)duration->type_case) {
    case META__DURATION__TYPE_MILLISECONDS:
        return ((int64_t)duration->milliseconds + 999) / 1000;
    case META__DURATION__TYPE_SECONDS:
        return duration->seconds;
    case META__DURATION__TYPE_MINUTES:
        return (int64_t)duration->minutes * 60;
    case META__DURATION__TYPE_HOURS:
        return (int64_t)duration->hours * 3600;
    case META__DURATION__TYPE_DAYS:
        return (int64_t)duration->days * 86400;
    case META__DURATION__TYPE_WEEKS:
        return (int64_t)duration->weeks * 7 * 86400;
    case META__DURATION__TYPE_MONTHS:
        return (int64_t)duration->months * 30 * 86400;
    case META__DURATION__TYPE__NOT_SET:
    default:
        return 0;
    }
}
