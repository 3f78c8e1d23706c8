#ifndef EXECUTOR_INIT_LANDLOCK_H
#define EXECUTOR_INIT_LANDLOCK_H

/* Landlock, by plain system calls: the headers of Debian 12 are older than what we use of it. */

enum {
    /* What allows to move files between directories, without which programs break: Linux 5.19. */
    LANDLOCK_ABI_MIN = 2,
};

/* The kernel's version of it; 0 when it has none, or the host's lsm= leaves it out. */
int landlock_read_abi(void);

/* Nothing outside of what is mounted beneath "/" can be written, run, made or removed from now on,
 * whatever descriptor leads there; and where the kernel knows how, nobody outside can be signalled
 * or reached by an abstract socket. Inherited, and for ever. Reading is left out: it would make
 * each open(2) cost half as much again. 0, also where the kernel has no Landlock, or -errno. */
int landlock_restrict_paths(void);

#endif
