#ifndef CLI_RUN_REPORT_H
#define CLI_RUN_REPORT_H

#include "api/ext.pb-c.h"

/* What became of a run, for a person: lines on standard error that begin with "cordium: ". Text
 * that a program had a hand in (names of files, of programs) is escaped. On a terminal the outcome
 * has a colour, whatever the program left it in. */

/* How it ended, why, what it used, which limits it met, and what its network refused. */
void run_report_fate(const Ext__RunResult *r);

/* Files that matched and did not come back. */
void run_report_skipped(const Ext__RunCollected *file);
void run_report_left_out(uint32_t count);

/* Between two parts of the output. */
void run_report_dropped(uint64_t bytes);

#endif
