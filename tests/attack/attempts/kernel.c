/* System calls with a history, keys, clocks, and what was left of other call tables. */
#include "tests/attack/attempts/attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

enum {
    X32_BIT = 0x40000000,
    GETPID_OF_I386 = 20,
    SESSION_KEYRING = -3,
    HANDLE_BYTES = 128,
    ALARM_CLOCK = 8, /* CLOCK_REALTIME_ALARM: wakes the machine */
};

static int try_io_uring(const char *argument)
{
    (void)argument;
    struct io_uring_params params = {0};
    return attempt_result(syscall(SYS_io_uring_setup, 4, &params));
}

static int try_bpf_map(const char *argument)
{
    (void)argument;
    union bpf_attr attr = {
        .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};
    return attempt_result(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof attr));
}

static int try_bpf_program(const char *argument)
{
    (void)argument;
    const struct bpf_insn code[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0},
                                    {.code = BPF_JMP | BPF_EXIT}};
    union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
                           .insns = (uint64_t)(uintptr_t)code,
                           .insn_cnt = 2,
                           .license = (uint64_t)(uintptr_t) "GPL"};
    return attempt_result(syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr));
}

static int try_userfaultfd(const char *argument)
{
    (void)argument;
    return attempt_result(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
}

static int try_perf_event(const char *argument)
{
    (void)argument;
    uint32_t attr[32] = {1 /* PERF_TYPE_SOFTWARE */, sizeof attr};
    return attempt_result(syscall(SYS_perf_event_open, attr, 0, -1, -1, 0L));
}

/* The call table of i386 is not what the filter was written for. */
static int try_int80(const char *argument)
{
    (void)argument;
    long result = -1;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(GETPID_OF_I386) : "memory");
    attempt_note("getpid gives %ld", result);
    return result > 0 ? 0 : (int)result;
}

static int try_x32(const char *argument)
{
    (void)argument;
    return attempt_result(syscall(X32_BIT | SYS_getpid));
}

/* A session keyring of its own first, so that none that is there gets a key. */
static int try_add_key(const char *argument)
{
    (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    long id = syscall(SYS_add_key, "user", argument[0] ? argument : "attempt", "secret", 6,
                      SESSION_KEYRING);
    if (id > 0) {
        attempt_note("key %ld", id);
    }
    return attempt_result(id);
}

static int try_request_key(const char *argument)
{
    return attempt_result(
        syscall(SYS_request_key, "user", argument[0] ? argument : "attempt", NULL, 0));
}

static int try_join_keyring(const char *argument)
{
    (void)argument;
    return attempt_result(syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL));
}

/* The serial number of somebody else's key. */
static int try_read_key(const char *argument)
{
    char text[256] = "";
    long n = syscall(SYS_keyctl, KEYCTL_READ, strtol(argument, NULL, 10), text, sizeof text);
    if (n == -1) {
        n = syscall(SYS_keyctl, KEYCTL_DESCRIBE, strtol(argument, NULL, 10), text, sizeof text);
    }
    return attempt_result(n);
}

/* Holds a key and prints its number, until standard input ends. */
static int try_hold_key(const char *argument)
{
    char byte;
    (void)syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    long id = syscall(SYS_add_key, "user", argument, "secret", 6, SESSION_KEYRING);
    printf("key %ld\n", id);
    fflush(stdout);
    (void)!read(0, &byte, 1);
    return attempt_result(id);
}

static int try_settimeofday(const char *argument)
{
    (void)argument;
    const struct timezone none = {0, 0};
    return attempt_result(syscall(SYS_settimeofday, NULL, &none));
}

/* A tick that stays as it is needs the right to change it. */
static int try_adjust_clock(const char *argument)
{
    (void)argument;
    struct timex t = {0};
    if (adjtimex(&t) == -1) {
        return -errno;
    }
    t.modes = ADJ_TICK;
    return attempt_result(adjtimex(&t));
}

/* Only where it is refused: what runs outside has adjust-clock. */
static int try_set_clock(const char *argument)
{
    (void)argument;
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return attempt_result(clock_settime(CLOCK_REALTIME, &t));
}

static int try_alarm_clock(const char *argument)
{
    (void)argument;
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_NONE};
    return attempt_result(timer_create(ALARM_CLOCK, &event, &timer));
}

/* A handle of what is above the sandbox's root: guessed when the kernel gives none. */
static int try_open_by_handle(const char *argument)
{
    union {
        struct file_handle handle;
        char bytes[sizeof(struct file_handle) + HANDLE_BYTES];
    } h = {.handle = {.handle_bytes = HANDLE_BYTES}};
    int mount_id = 0;
    int where = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *path = argument[0] ? argument : "/";
    if (name_to_handle_at(AT_FDCWD, path, &h.handle, &mount_id, 0) == -1) {
        attempt_note("name_to_handle_at %s; ", strerrorname_np(errno));
        h.handle.handle_bytes = 8;
        h.handle.handle_type = 1; /* inode 2 of ext4, without a generation */
        memcpy(h.handle.f_handle, "\2\0\0\0\0\0\0\0", 8);
    }
    return attempt_result(open_by_handle_at(where, &h.handle, O_RDONLY | O_CLOEXEC));
}

static int try_raise_core_limit(const char *argument)
{
    (void)argument;
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    struct rlimit now = {0, 0};
    (void)getrlimit(RLIMIT_CORE, &now);
    attempt_note("core limit %llu", (unsigned long long)now.rlim_max);
    return attempt_result(setrlimit(RLIMIT_CORE, &all));
}

/* "CapEff,CapPrm&0x200000": 0 when one of these sets has one of these bits; by default, any. */
static int try_find_capabilities(const char *argument)
{
    char line[256];
    int found = 0;
    const char *bits = strchr(argument, '&');
    const unsigned long long mask = bits ? strtoull(bits + 1, NULL, 0) : ~0ULL;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long long value = 0;
        char name[16] = "";
        if (sscanf(line, "%15[^:]: %llx", name, &value) == 2 && strncmp(name, "Cap", 3) == 0 &&
            (argument[0] == '\0' || strstr(argument, name))) {
            attempt_note("%s %llx; ", name, value);
            found += (value & mask) != 0;
        }
    }
    if (f) {
        (void)fclose(f);
    }
    return found > 0 ? 0 : -EPERM;
}

const struct attempt kernel_attempts[] = {
    {"io-uring", try_io_uring},
    {"bpf-map", try_bpf_map},
    {"bpf-program", try_bpf_program},
    {"userfaultfd", try_userfaultfd},
    {"perf-event", try_perf_event},
    {"int80", try_int80},
    {"x32", try_x32},
    {"add-key", try_add_key},
    {"request-key", try_request_key},
    {"join-keyring", try_join_keyring},
    {"read-key", try_read_key},
    {"hold-key", try_hold_key},
    {"settimeofday", try_settimeofday},
    {"adjust-clock", try_adjust_clock},
    {"set-clock", try_set_clock},
    {"alarm-clock", try_alarm_clock},
    {"open-by-handle", try_open_by_handle},
    {"raise-core-limit", try_raise_core_limit},
    {"find-capabilities", try_find_capabilities},
    {NULL, NULL},
};
