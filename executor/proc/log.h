#ifndef PROC_LOG_H
#define PROC_LOG_H

/* Writes one line to stderr. Control characters leave as '?', so that one call is one line. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
