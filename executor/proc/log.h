#ifndef PROC_LOG_H
#define PROC_LOG_H

/* One line of a daemon's own log, on standard error: "<level> time text", where <level> is the
 * syslog number that journald understands. The text is formatted, then control characters are
 * escaped, so that nothing from outside can forge a line. Keeps no state; safe between threads as
 * far as one write(2) of at most 4096 bytes is. Never for secrets. */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
