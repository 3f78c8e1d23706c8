#ifndef SERVICES_ONESHOT_PROGRAM_H
#define SERVICES_ONESHOT_PROGRAM_H

#include "gateway/services/oneshot.h"

/* The steps of a run inside its sandbox: files in, the program, files out. */
void oneshot_run_program(struct oneshot *o);

/* How each step ends the run (oneshot.c). The program was not started: the waiters get the error.
 */
void oneshot_fail(struct oneshot *o, const struct error *err);

/* True when it was cancelled before the program started; then it is over. */
bool oneshot_fail_when_cancelled(struct oneshot *o);

/* All is known: the result is made, kept and told. */
void oneshot_finish(struct oneshot *o);

/* Frees what is over when nothing of the executor is due any more. */
void oneshot_free_when_over(struct oneshot *o);

#endif
