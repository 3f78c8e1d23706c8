/* What one sandbox costs: through the gateway, through the executor alone, and with bubblewrap,
 * interleaved in one run. Started by bench.sh, which makes the platform and the settings. */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bwrap_side.h"
#include "tests/bench/executor_side.h"
#include "tests/bench/gateway_side.h"
#include "tests/bench/memory_use.h"
#include "tests/bench/samples.h"
#include "tests/bench/trace_lines.h"

enum {
    WARM_ROUNDS = 8,
    PAUSE_US = 5000, /* between two things that are measured: the pools fill while nobody asks */
    IDLE_WORKSPACES = 16,
    OUTPUT_MEBIBYTES = 256,
};

enum step { STEP_CREATE, STEP_START, STEP_EXEC, STEP_DELETE, STEPS };
static const char *const step_methods[STEPS] = {"CreateWorkspace", "StartWorkspace", "Exec",
                                                "DeleteWorkspace"};
static const char *const shell_true[] = {"/bin/sh", "-c", "/bin/true"};
static const char *const bare_true[] = {"/bin/true"};

struct settings {
    unsigned rounds;
    const char *template_name;
    const char *rootfs;
    const char *executor_socket;
    uint32_t gateway_uid;
    int gateway_pid;
    int executor_pid;
    const char *gateway_log;
    const char *executor_log;
    const char *memory_cgroup;
};

struct bench {
    struct settings set;
    struct gateway_side *gateway;
    struct executor_side *executor;
    struct samples steps[STEPS];
    struct samples total;
    struct executor_side_times alone;
    struct samples bwrap_shell;
    struct samples bwrap_bare;
    struct samples warm_exec;
    struct samples warm_get;
    struct trace_lines trace;
    double output_mib_per_s;
    unsigned long memory_kib[3][2]; /* gateway, executor, cgroup: at rest, with idle workspaces */
};

static int gateway_cycle(struct bench *b, struct error *err)
{
    const char *name = "";
    uint64_t at[STEPS + 1];
    at[0] = clock_ns();
    int rc = gateway_side_create(b->gateway, b->set.template_name, &name, err);
    at[1] = clock_ns();
    rc = rc ? rc : gateway_side_start(b->gateway, name, err);
    at[2] = clock_ns();
    rc = rc ? rc : gateway_side_exec(b->gateway, name, bare_true[0], NULL, err);
    at[3] = clock_ns();
    rc = rc ? rc : gateway_side_delete(b->gateway, name, err);
    at[4] = clock_ns();
    for (int i = 0; !rc && i < STEPS; i++) {
        samples_add(&b->steps[i], at[i + 1] - at[i]);
    }
    samples_add(&b->total, at[STEPS] - at[0]);
    return rc;
}

static int bwrap_cycle(struct bench *b, struct error *err)
{
    uint64_t began = clock_ns();
    int rc = bwrap_side_run(b->set.rootfs, shell_true, 3, err);
    uint64_t middle = clock_ns();
    rc = rc ? rc : bwrap_side_run(b->set.rootfs, bare_true, 1, err);
    samples_add(&b->bwrap_shell, middle - began);
    samples_add(&b->bwrap_bare, clock_ns() - middle);
    return rc;
}

static int one_round(struct bench *b, struct error *err)
{
    int rc = gateway_cycle(b, err);
    (void)usleep(PAUSE_US);
    rc = rc ? rc : executor_side_cycle(b->executor, shell_true, 3, &b->alone, err);
    (void)usleep(PAUSE_US);
    rc = rc ? rc : bwrap_cycle(b, err);
    (void)usleep(PAUSE_US);
    return rc;
}

static int measure_cycles(struct bench *b, struct error *err)
{
    struct bench *warm = calloc(1, sizeof *warm);
    int rc = 0;
    if (!warm) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    warm->set = b->set;
    warm->gateway = b->gateway;
    warm->executor = b->executor;
    for (unsigned i = 0; !rc && i < WARM_ROUNDS; i++) {
        rc = one_round(warm, err);
    }
    free(warm);
    long gateway_from = trace_lines_end_of(b->set.gateway_log);
    long executor_from = trace_lines_end_of(b->set.executor_log);
    for (unsigned i = 0; !rc && i < b->set.rounds; i++) {
        rc = one_round(b, err);
    }
    trace_lines_read(&b->trace, b->set.gateway_log, gateway_from);
    trace_lines_read(&b->trace, b->set.executor_log, executor_from);
    return rc;
}

static int measure_output(struct bench *b, const char *name, struct error *err)
{
    char command[64];
    uint64_t bytes = 0;
    uint64_t want = (uint64_t)OUTPUT_MEBIBYTES << 20;
    (void)snprintf(command, sizeof command, "dd if=/dev/zero bs=1M count=%d 2>/dev/null",
                   OUTPUT_MEBIBYTES);
    uint64_t began = clock_ns();
    int rc = gateway_side_exec(b->gateway, name, command, &bytes, err);
    b->output_mib_per_s = OUTPUT_MEBIBYTES * 1e9 / (double)(clock_ns() - began);
    return rc || bytes == want
               ? rc
               : error_set(err, STATUS_DATA_LOSS, "%llu bytes of output came, not %llu",
                           (unsigned long long)bytes, (unsigned long long)want);
}

static int measure_warm(struct bench *b, struct error *err)
{
    const char *name = "";
    int rc = gateway_side_create(b->gateway, b->set.template_name, &name, err);
    rc = rc ? rc : gateway_side_start(b->gateway, name, err);
    for (unsigned i = 0; !rc && i < 2 * b->set.rounds; i++) {
        uint64_t began = clock_ns();
        rc = gateway_side_exec(b->gateway, name, bare_true[0], NULL, err);
        samples_add(&b->warm_exec, clock_ns() - began);
    }
    for (unsigned i = 0; !rc && i < 2 * b->set.rounds; i++) {
        uint64_t began = clock_ns();
        rc = gateway_side_get(b->gateway, name, err);
        samples_add(&b->warm_get, clock_ns() - began);
    }
    rc = rc ? rc : measure_output(b, name, err);
    return rc ? rc : gateway_side_delete(b->gateway, name, err);
}

static void read_memory(struct bench *b, int when)
{
    b->memory_kib[0][when] = memory_of_process_kib(b->set.gateway_pid);
    b->memory_kib[1][when] = memory_of_process_kib(b->set.executor_pid);
    b->memory_kib[2][when] = memory_of_cgroup_kib(b->set.memory_cgroup);
}

static int measure_memory(struct bench *b, struct error *err)
{
    char names[IDLE_WORKSPACES][64];
    int made = 0;
    int rc = 0;
    read_memory(b, 0);
    while (!rc && made < IDLE_WORKSPACES) {
        const char *name = "";
        rc = gateway_side_create(b->gateway, b->set.template_name, &name, err);
        if (!rc) {
            (void)snprintf(names[made], sizeof names[made], "%s", name);
            rc = gateway_side_start(b->gateway, names[made++], err);
        }
    }
    read_memory(b, 1);
    while (made > 0) {
        struct error ignored;
        (void)gateway_side_delete(b->gateway, names[--made], &ignored);
    }
    return rc;
}

/* --- the report --- */

static void print_row(const char *name, const struct samples *s)
{
    printf("  %-52s %8.0f %8.0f %8.0f %8.0f\n", name, samples_percentile_us(s, 10),
           samples_percentile_us(s, 50), samples_percentile_us(s, 90),
           samples_percentile_us(s, 99));
}

static void print_totals(const struct bench *b)
{
    double ours = samples_percentile_us(&b->total, 50);
    double theirs = samples_percentile_us(&b->bwrap_shell, 50);
    printf("  %-52s %8s %8s %8s %8s\n", "microseconds", "p10", "median", "p90", "p99");
    print_row("gateway: create + start + exec /bin/true + delete", &b->total);
    print_row("   create", &b->steps[STEP_CREATE]);
    print_row("   start, until RUNNING", &b->steps[STEP_START]);
    print_row("   exec", &b->steps[STEP_EXEC]);
    print_row("   delete, until gone", &b->steps[STEP_DELETE]);
    print_row("executor alone: create + run + destroy", &b->alone.total);
    print_row("   create", &b->alone.create);
    print_row("   run sh -c /bin/true", &b->alone.run);
    print_row("   destroy", &b->alone.destroy);
    print_row("bwrap sh -c /bin/true", &b->bwrap_shell);
    print_row("bwrap /bin/true", &b->bwrap_bare);
    print_row("exec /bin/true in a warm workspace, round trip", &b->warm_exec);
    print_row("get workspace, round trip", &b->warm_get);
    printf("  of medians: gateway / bwrap %.2f, executor / bwrap %.2f; of p10: %.2f, %.2f\n\n",
           ours / theirs, samples_percentile_us(&b->alone.total, 50) / theirs,
           samples_percentile_us(&b->total, 10) / samples_percentile_us(&b->bwrap_shell, 10),
           samples_percentile_us(&b->alone.total, 10) / samples_percentile_us(&b->bwrap_shell, 10));
}

static void print_trace_row(const struct bench *b, const char *title, const char *name)
{
    double sum = 0;
    printf("  %-40s", title);
    for (int i = 0; i < STEPS; i++) {
        double us = trace_lines_median_us(&b->trace, step_methods[i], name);
        sum += us;
        printf(" %7.0f", us);
    }
    printf(" %8.0f\n", sum);
}

/* What is left of the client's time: both ends of TLS and HTTP/2, the client itself, the wake-ups.
 */
static void print_transport_row(const struct bench *b)
{
    double sum = 0;
    printf("  %-40s", "TLS, HTTP/2, client, wake-ups");
    for (int i = 0; i < STEPS; i++) {
        double us = samples_percentile_us(&b->steps[i], 50) -
                    trace_lines_median_us(&b->trace, step_methods[i], "total");
        sum += us;
        printf(" %7.0f", us);
    }
    printf(" %8.0f\n", sum);
}

static void print_where(const struct bench *b)
{
    printf("  %-40s %7s %7s %7s %7s %8s\n", "where it goes (medians, us)", "create", "start",
           "exec", "delete", "sum");
    print_transport_row(b);
    print_trace_row(b, "authentication", "authenticate");
    print_trace_row(b, "decode (and the wait for the message)", "message");
    print_trace_row(b, "", "decode");
    print_trace_row(b, "look-up of what it touches", "resolve");
    print_trace_row(b, "policy", "authorize");
    print_trace_row(b, "audit line on the disk", "record");
    print_trace_row(b, "the method itself", "handle");
    print_trace_row(b, "   of it: store, with its waits", "store");
    print_trace_row(b, "   waits of the store (count)", "writes");
    print_trace_row(b, "total in the gateway", "total");
    printf("\n");
}

static void print_executor_trace(const struct bench *b)
{
    printf("  executor's trace of a sandbox (medians, us):\n   ");
    for (size_t i = 0; i < b->trace.count; i++) {
        const struct trace_series *s = &b->trace.series[i];
        if (s->method[0] == '\0') {
            printf(" %s %.0f", s->name, samples_percentile_us(&s->samples, 50));
        }
    }
    printf("\n\n");
}

static void print_rest(const struct bench *b)
{
    printf("  output of an exec: %.0f MiB/s over %d MiB\n", b->output_mib_per_s, OUTPUT_MEBIBYTES);
    printf("  memory at rest, PSS: gateway %lu KiB, executor %lu KiB\n", b->memory_kib[0][0],
           b->memory_kib[1][0]);
    printf("  per idle workspace (of %d): gateway %.0f KiB, executor %.0f KiB, its own cgroup %.0f "
           "KiB\n",
           IDLE_WORKSPACES,
           ((double)b->memory_kib[0][1] - (double)b->memory_kib[0][0]) / IDLE_WORKSPACES,
           ((double)b->memory_kib[1][1] - (double)b->memory_kib[1][0]) / IDLE_WORKSPACES,
           ((double)b->memory_kib[2][1] - (double)b->memory_kib[2][0]) / IDLE_WORKSPACES);
}

static void print_machine(const struct bench *b, const char *when)
{
    double load[3] = {0, 0, 0};
    (void)getloadavg(load, 3);
    printf("%s: %ld cores, load average %.2f %.2f %.2f, %u interleaved rounds\n", when,
           sysconf(_SC_NPROCESSORS_ONLN), load[0], load[1], load[2], b->set.rounds);
}

static int bench(struct bench *b, struct error *err)
{
    int rc = gateway_side_new(&b->gateway, err);
    rc = rc ? rc : executor_side_new(b->set.executor_socket, b->set.gateway_uid, &b->executor, err);
    if (!rc) {
        print_machine(b, "before");
    }
    rc = rc ? rc : measure_memory(b, err);
    rc = rc ? rc : measure_cycles(b, err);
    rc = rc ? rc : measure_warm(b, err);
    if (!rc) {
        print_machine(b, "after");
        printf("\n");
        print_totals(b);
        print_where(b);
        print_executor_trace(b);
        print_rest(b);
    }
    executor_side_free(b->executor);
    gateway_side_free(b->gateway);
    return rc;
}

static bool read_settings(int argc, char **argv, struct settings *ret)
{
    static const struct option options[] = {{"rounds", required_argument, NULL, 'n'},
                                            {"template", required_argument, NULL, 't'},
                                            {"rootfs", required_argument, NULL, 'r'},
                                            {"executor", required_argument, NULL, 'e'},
                                            {"gateway-uid", required_argument, NULL, 'u'},
                                            {"gateway-pid", required_argument, NULL, 'g'},
                                            {"executor-pid", required_argument, NULL, 'x'},
                                            {"gateway-log", required_argument, NULL, 'l'},
                                            {"executor-log", required_argument, NULL, 'k'},
                                            {"cgroup", required_argument, NULL, 'c'},
                                            {0}};
    int c;
    *ret = (struct settings){.rounds = 100, .memory_cgroup = ""};
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'n':
            ret->rounds = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 't':
            ret->template_name = optarg;
            break;
        case 'r':
            ret->rootfs = optarg;
            break;
        case 'e':
            ret->executor_socket = optarg;
            break;
        case 'u':
            ret->gateway_uid = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'g':
            ret->gateway_pid = (int)strtol(optarg, NULL, 10);
            break;
        case 'x':
            ret->executor_pid = (int)strtol(optarg, NULL, 10);
            break;
        case 'l':
            ret->gateway_log = optarg;
            break;
        case 'k':
            ret->executor_log = optarg;
            break;
        case 'c':
            ret->memory_cgroup = optarg;
            break;
        default:
            return false;
        }
    }
    return ret->template_name && ret->rootfs && ret->executor_socket && ret->gateway_log &&
           ret->executor_log;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct bench *b = calloc(1, sizeof *b);
    if (!b || !read_settings(argc, argv, &b->set)) {
        (void)fprintf(stderr, "sandbox_bench is started by tests/bench/bench.sh\n");
        free(b);
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    int rc = bench(b, &err);
    if (rc) {
        (void)fprintf(stderr, "sandbox_bench: %s: %s\n", status_name(err.status), err.text);
    }
    free(b);
    return rc ? 1 : 0;
}
