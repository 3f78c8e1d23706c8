#ifndef AUDITFILE_CREW_H
#define AUDITFILE_CREW_H

#include <stddef.h>

/* Threads that share out a row of jobs, the caller among them. */
struct crew;

enum { CREW_MEMBERS_MAX = 64 };

/* members: with the caller, at least 1. NULL without memory. */
struct crew *crew_new(unsigned members);
void crew_free(struct crew *c); /* NULL is fine */

/* As many as there are. */
unsigned crew_members(const struct crew *c);

/* Runs job(arg, i, member) for each i below count, each once, and returns when all are done. Jobs
 * of one member come one after the other. */
void crew_run(struct crew *c, size_t count, void (*job)(void *arg, size_t i, unsigned member),
              void *arg);

#endif
