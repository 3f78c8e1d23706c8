/* Times on the command line. */
#include "gateway/cli/time_option.h"

#include <check.h>
#include <string.h>

Suite *suite_time_option(void);

/* 2026-11-30T10:20:30Z */
static const int64_t now = 1796034030;

struct example {
    const char *text;
    int64_t seconds;
    uint32_t nanos;
};

START_TEST(time_is_understood)
{
    static const struct example examples[] = {
        {"90s", 1796034030 - 90, 0},
        {"2h", 1796034030 - 7200, 0},
        {"1h30m", 1796034030 - 5400, 0},
        {"7d", 1796034030 - 7 * 86400, 0},
        {"2w", 1796034030 - 14 * 86400, 0},
        {"now", 1796034030, 0},
        {"today", 1795996800, 0},
        {"yesterday", 1795910400, 0},
        {"2026-11-30", 1795996800, 0},
        {"2026-11-30T10:00", 1796032800, 0},
        {"2026-11-30 10:00:05", 1796032805, 0},
        {"2026-11-30T10:00:05.25Z", 1796032805, 250000000},
        {"2026-11-30T10:00+02:00", 1796025600, 0},
        {"2026-11-30T10:00:00-00:30", 1796034600, 0},
        {"2028-02-29", 1835395200, 0},
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        int64_t seconds = 0;
        uint32_t nanos = 0;
        struct error err = {0};
        ck_assert_msg(time_option_parse("--since", examples[i].text, now, &seconds, &nanos, &err) ==
                          0,
                      "'%s': %s", examples[i].text, err.text);
        ck_assert_msg(seconds == examples[i].seconds && nanos == examples[i].nanos, "'%s': %lld.%u",
                      examples[i].text, (long long)seconds, nanos);
    }
}
END_TEST

START_TEST(other_times_are_refused_with_the_forms)
{
    static const char *const bad[] = {
        "",
        "2",
        "h",
        "2x",
        "2h ",
        "-2h",
        "2026-02-30",
        "2026-13-01",
        "26-11-30",
        "2026-11-30T",
        "2026-11-30T24:00",
        "2026-11-30T10:60",
        "2026-11-30T10:00:60",
        "2026-11-30T10:00:05.",
        "2026-11-30T10:00.5",
        "2026-11-30T10:00+2",
        "2026-11-30Z",
        "99999999999999999999s",
        "9999999999d",
        "tomorrow",
        "2026-11-30T10:00 UTC",
        "2027-02-29",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t seconds = 77;
        uint32_t nanos = 77;
        struct error err = {0};
        ck_assert_msg(time_option_parse("--until", bad[i], now, &seconds, &nanos, &err) ==
                          -STATUS_INVALID_ARGUMENT,
                      "'%s' is %lld", bad[i], (long long)seconds);
        ck_assert_ptr_nonnull(strstr(err.text, "--until '"));
        ck_assert_ptr_nonnull(strstr(err.text, "2026-11-30T10:00"));
        ck_assert(seconds == 77 && nanos == 77);
    }
}
END_TEST

Suite *suite_time_option(void)
{
    Suite *s = suite_create("time_option");
    TCase *t = tcase_create("parse");
    tcase_add_test(t, time_is_understood);
    tcase_add_test(t, other_times_are_refused_with_the_forms);
    suite_add_tcase(s, t);
    return s;
}
