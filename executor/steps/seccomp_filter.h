#ifndef EXECUTOR_STEPS_SECCOMP_FILTER_H
#define EXECUTOR_STEPS_SECCOMP_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/status.h"

/* The system call filter, as one BPF program that is built once and loaded many times. It is a
 * binary search over intervals of call numbers that uses only the instructions which the kernel's
 * load-time emulation follows (LD nr/arch, JGE, JEQ, AND, RET), so that loading costs 40 us instead
 * of 600 and an allowed call one bit test (facts, sandbox 4d).
 *
 * x86-64 only: any other architecture kills the process, x32 numbers are ENOSYS. */

enum { SECCOMP_PROGRAM_MAX = 512 };

struct seccomp_program {
    struct sock_filter code[SECCOMP_PROGRAM_MAX];
    unsigned short length;
};

/* is_build: with the calls that an image build in its own mount namespace needs. INTERNAL when the
 * table does not fit into a program. */
int seccomp_program_build(bool is_build, struct seccomp_program *ret, struct error *err);

/* The verdict for one call (SECCOMP_RET_*), by interpreting the program: for tests and for the
 * self-test. */
uint32_t seccomp_program_run(const struct seccomp_program *program, uint32_t arch, uint32_t nr,
                             const uint64_t args[6]);

#endif
