/* Tries what is known to have broken out of sandboxes, and prints what became of it.
 *
 *   attempts NAME[=ARGUMENT]...
 *   attempts effective-uid          by its exit code: whether it has become root, or got a
 * capability
 *
 * One line an attempt: "NAME: succeeded", "NAME: refused ERRNO", "NAME: killed SIGNAL" or
 * "NAME: hangs", each followed by a note where there is one. Static, for images without a libc. */
#include "tests/attack/attempts/attempt.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOTE_BYTES = 4000, NAME_BYTES = 64, TIME_LIMIT_S = 30 };

/* Of the process of one attempt, which ends with it. */
static char note[NOTE_BYTES];

static const struct attempt *const lists[] = {namespace_attempts, socket_attempts,
                                              kernel_attempts,    file_attempts,
                                              process_attempts,   exhaustion_attempts};

void attempt_note(const char *format, ...)
{
    size_t used = strlen(note);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(note + used, sizeof note - used, format, args);
    va_end(args);
}

int attempt_result(long result)
{
    return result == -1 ? -errno : 0;
}

void attempt_split(const char *argument, char *first, char *second, size_t size)
{
    const char *comma = strchr(argument, ',');
    int n = comma ? (int)(comma - argument) : (int)strlen(argument);
    (void)snprintf(first, size, "%.*s", n, argument);
    (void)snprintf(second, size, "%s", comma ? comma + 1 : "");
}

long long attempt_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

const char *attempt_make_folder(void)
{
    static const char *const places[] = {"/workspace", "/tmp", "/dev/shm"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *path = NULL;
        if (asprintf(&path, "%s/attempt-XXXXXX", places[i]) >= 0 && mkdtemp(path)) {
            return path;
        }
        free(path);
    }
    return NULL;
}

static const struct attempt *find(const char *name)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (const struct attempt *a = lists[i]; a->name; a++) {
            if (strcmp(a->name, name) == 0) {
                return a;
            }
        }
    }
    return NULL;
}

static void print_outcome(const char *name, const char *outcome, const char *detail)
{
    printf("%s: %s%s%s%s%s\n", name, outcome, detail[0] ? " " : "", detail, note[0] ? " | " : "",
           note);
    fflush(stdout);
}

static _Noreturn void try(const struct attempt *a, const char *argument)
{
    (void)alarm(TIME_LIMIT_S);
    int r = a->run(argument);
    print_outcome(a->name, r == 0 ? "succeeded" : "refused", r == 0 ? "" : strerrorname_np(-r));
    _exit(0);
}

static int try_word(const char *word)
{
    char name[NAME_BYTES];
    size_t n = strcspn(word, "=");
    (void)snprintf(name, sizeof name, "%.*s", (int)n, word);
    const struct attempt *a = find(name);
    if (!a) {
        fprintf(stderr, "attempts: there is no attempt '%s'\n", name);
        return 2;
    }
    pid_t child = fork();
    if (child == 0) {
        try(a, word[n] ? word + n + 1 : "");
    }
    int status = 0;
    if (child == -1 || waitpid(child, &status, 0) == -1) {
        print_outcome(name, "not tried:", strerrorname_np(errno));
        return 1;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        print_outcome(name, "hangs", "");
    } else if (WIFSIGNALED(status)) {
        char signal_name[32];
        (void)snprintf(signal_name, sizeof signal_name, "SIG%s",
                       sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "?");
        print_outcome(name, "killed", signal_name);
    }
    return 0;
}

/* What set-user-id and file-capability programs are for. */
static bool has_gained_rights(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    (void)syscall(SYS_capget, &header, data);
    return (geteuid() == 0 && getuid() != 0) || (data[0].permitted | data[1].permitted) != 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "effective-uid") == 0) {
        return has_gained_rights() ? 0 : 1;
    }
    int code = argc > 1 ? 0 : 2;
    for (int i = 1; i < argc && code == 0; i++) {
        code = try_word(argv[i]);
    }
    return code;
}
