#ifndef BENCH_MEMORY_USE_H
#define BENCH_MEMORY_USE_H

/* What a process holds by itself, in KiB: its share of what it shares with others is counted by
 * PSS. 0 when it cannot be read. */
unsigned long memory_of_process_kib(int pid);

/* What a cgroup holds, kernel memory too, in KiB. `folder` is the group's, v1 or v2. */
unsigned long memory_of_cgroup_kib(const char *folder);

#endif
