/* What hostile programs try, one attempt a function, in files by theme. */
#ifndef TESTS_ATTACK_ATTEMPT_H
#define TESTS_ATTACK_ATTEMPT_H

#include <stddef.h>

struct attempt {
    const char *name;
    /* Runs in a process of its own, which may be killed for it. `argument` is "" when none was
     * given. Returns 0 when what was tried works, which is the harm, or -errno. */
    int (*run)(const char *argument);
};

/* Each list ends with a NULL name. */
extern const struct attempt namespace_attempts[];
extern const struct attempt socket_attempts[];
extern const struct attempt kernel_attempts[];
extern const struct attempt file_attempts[];
extern const struct attempt process_attempts[];
extern const struct attempt exhaustion_attempts[];

/* Adds to what is printed behind the outcome; cut at 4,000 bytes. */
void attempt_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* 0, or -errno when a system call has returned -1. */
int attempt_result(long result);

/* Turns "a,b" into its parts; those that are missing are "". */
void attempt_split(const char *argument, char *first, char *second, size_t size);

long long attempt_now_ms(void);

/* A fresh directory that is ours; its path lives until the process ends. NULL with errno. */
const char *attempt_make_folder(void);

#endif
