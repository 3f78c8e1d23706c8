#ifndef BENCH_TRACE_LINES_H
#define BENCH_TRACE_LINES_H

#include "tests/bench/samples.h"

/* The daemons' trace lines: "… us: [path: ]name number, name number, …". */
enum { TRACE_SERIES_MAX = 96, TRACE_NAME_MAX = 64 };

struct trace_series {
    char method[TRACE_NAME_MAX]; /* the last part of the path; "" for the executor's */
    char name[TRACE_NAME_MAX];
    struct samples samples; /* microseconds of the line, kept as ns */
};

struct trace_lines {
    size_t count;
    struct trace_series series[TRACE_SERIES_MAX];
};

/* Where a log ends now, to read only what comes after. -1 when it cannot be told. */
long trace_lines_end_of(const char *path);
void trace_lines_read(struct trace_lines *t, const char *path, long from);

/* 0 when there is no such series. */
double trace_lines_median_us(const struct trace_lines *t, const char *method, const char *name);

#endif
