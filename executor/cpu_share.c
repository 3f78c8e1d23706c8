#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "executor/executor.h"
#include "executor/proc/clock.h"
#include "executor/proc/fd.h"

/* Who computes all the time gives way to who has something short to do.
 *
 * Fair shares alone make the short wait: with twenty sandboxes that compute, a command of a quiet
 * one has a turn in twenty each time that one of its processes wakes up. So each sandbox has a
 * credit of CPU time, which its use lowers, and which half of its fair share (of what sandboxes
 * used and nobody did, by those that compute) raises, ten times a second. Without credit it goes
 * behind (cpu.idle of its cgroup: whoever is not behind takes the CPU from it at once) until it has
 * some again. Those in front use in the long run less than half of all, so that what is behind
 * still has the other half.
 *
 * The credit is small: it is also what many that turn hostile at once can use before they are
 * behind. And it is a sum, not a rate: one that is starved by others does not count as modest. */

#define LOOK_NS (UINT64_C(100) * 1000 * 1000)
#define LOOK_QUIET_NS (UINT64_C(400) * 1000 * 1000) /* while none of them computes */

enum {
    QUIET_LOOKS = 16,          /* a quiet one is looked at in one of so many looks */
    SMOOTHING = 4,             /* looks */
    SCALE = 16,                /* of rates, so that averages of small ones are not cut to 0 */
    BUSY_RATE_MIN = 4 * SCALE, /* 0.4 % of a CPU; who takes less is not counted */
    CREDIT_MAX_US = 50 * 1000,
    UPTIME_TEXT_MAX = 64,
};

static bool is_due(const struct sandbox *s, unsigned bucket, unsigned look)
{
    return s->cgroup && (s->is_computing || bucket % QUIET_LOOKS == look % QUIET_LOOKS);
}

/* Microseconds of all CPUs together in which nothing ran, since the machine's start. */
static uint64_t read_idle_us(void)
{
    char text[UPTIME_TEXT_MAX];
    ssize_t n = fd_read_file(AT_FDCWD, "/proc/uptime", text, sizeof text);
    const char *second = n > 0 ? strchr(text, ' ') : NULL;
    return second ? (uint64_t)(strtod(second, NULL) * 1e6) : 0;
}

/* Rates are microseconds for each millisecond. */
static void look_at(struct sandbox *s, uint64_t now)
{
    uint64_t used = cgroup_read_cpu_us(s->cgroup);
    uint64_t ms = (now - s->cpu_looked_ns) / 1000000;
    if (s->cpu_looked_ns == 0) {
        s->cpu_credit_us = CREDIT_MAX_US;
    } else if (ms > 0 && used >= s->cpu_used_us) {
        uint64_t rate = SCALE * (used - s->cpu_used_us) / ms;
        s->cpu_rate = (s->cpu_rate * (SMOOTHING - 1) + rate) / SMOOTHING;
        s->cpu_credit_us +=
            (int64_t)(s->ex->cpu_credit_rate * ms / SCALE) - (int64_t)(used - s->cpu_used_us);
        s->cpu_credit_us = MAX(MIN(s->cpu_credit_us, CREDIT_MAX_US), -CREDIT_MAX_US);
    }
    s->cpu_looked_ns = now;
    s->cpu_used_us = used;
    s->is_computing = s->cpu_rate >= BUSY_RATE_MIN || s->cpu_credit_us < 0;
    cgroup_set_behind(s->cgroup, s->cpu_credit_us < 0 && s->state != SANDBOX_ENDING);
}

/* It is looked at again soon while it is open whom the kernel killed. */
static void look_at_ooms(struct sandbox *s)
{
    for (struct run *run = s->runs; run; run = run->next_of_sandbox) {
        s->is_computing = run_look_at_ooms(run) || s->is_computing;
    }
}

static void look(struct executor *ex, uint64_t now)
{
    uint64_t sum = 0;
    unsigned count = 0;
    ex->cpu_looks++;
    for (unsigned i = 0; i < TABLE_SIZE; i++) {
        for (struct sandbox *s = ex->sandboxes[i]; s; s = s->next_in_table) {
            if (is_due(s, i, ex->cpu_looks)) {
                look_at(s, now);
            }
            look_at_ooms(s);
            sum += s->is_computing ? s->cpu_rate : 0;
            count += s->is_computing;
        }
    }
    uint64_t idle = read_idle_us();
    uint64_t ms = (now - ex->cpu_looked_ns) / 1000000;
    if (ms > 0 && idle > ex->cpu_idle_us) {
        sum += SCALE * (idle - ex->cpu_idle_us) / ms;
    }
    ex->cpu_looked_ns = now;
    ex->cpu_idle_us = idle;
    ex->cpu_credit_rate = sum / 2 / MAX(count, 1U);
    ex->computing_count = count;
}

int cpu_share_when_due(struct executor *ex)
{
    uint64_t now = clock_now_ns();
    if (ex->sandbox_count == 0) {
        return -1;
    }
    if (ex->cpu_next_look_ns <= now) {
        look(ex, now);
        ex->cpu_next_look_ns = now + (ex->computing_count > 0 ? LOOK_NS : LOOK_QUIET_NS);
    }
    return (int)((ex->cpu_next_look_ns - now) / 1000000) + 1;
}

void cpu_share_expect(struct sandbox *s)
{
    struct executor *ex = s->ex;
    uint64_t now = clock_now_ns();
    if (!s->is_computing) {
        look_at(s, now);
        s->is_computing = true;
        ex->computing_count++;
    }
    if (ex->cpu_next_look_ns > now + LOOK_NS) {
        ex->cpu_next_look_ns = now + LOOK_NS;
    }
}

void cpu_share_hurry(struct sandbox *s)
{
    s->cpu_credit_us = CREDIT_MAX_US;
    if (s->cgroup) {
        cgroup_set_behind(s->cgroup, false);
    }
}
