#include "tests/bench/trace_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 4096 };

long trace_lines_end_of(const char *path)
{
    FILE *file = fopen(path, "r");
    long end = -1;
    if (file) {
        end = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
        (void)fclose(file);
    }
    return end;
}

static struct trace_series *find(struct trace_lines *t, const char *method, const char *name)
{
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->series[i].method, method) == 0 && strcmp(t->series[i].name, name) == 0) {
            return &t->series[i];
        }
    }
    if (t->count == TRACE_SERIES_MAX) {
        return NULL;
    }
    struct trace_series *s = &t->series[t->count++];
    (void)snprintf(s->method, sizeof s->method, "%s", method);
    (void)snprintf(s->name, sizeof s->name, "%s", name);
    return s;
}

/* "name number, name number" */
static void read_pairs(struct trace_lines *t, const char *method, char *text)
{
    char *rest = text;
    for (char *pair; (pair = strsep(&rest, ",")) != NULL;) {
        pair += strspn(pair, " ");
        char *space = strrchr(pair, ' ');
        if (!space) {
            continue;
        }
        *space = '\0';
        struct trace_series *s = find(t, method, pair);
        if (s) {
            samples_add(&s->samples, strtoull(space + 1, NULL, 10) * 1000);
        }
    }
}

static void read_line(struct trace_lines *t, char *line)
{
    static const char mark[] = " us: ";
    char *at = strstr(line, mark);
    if (!at) {
        return;
    }
    at += sizeof mark - 1;
    char *colon = at[0] == '/' ? strchr(at, ':') : NULL;
    const char *method = "";
    if (colon) {
        *colon = '\0';
        method = strrchr(at, '/') + 1;
        at = colon + 1;
    }
    at[strcspn(at, "\n")] = '\0';
    read_pairs(t, method, at);
}

void trace_lines_read(struct trace_lines *t, const char *path, long from)
{
    char line[LINE_MAX_BYTES];
    FILE *file = from >= 0 ? fopen(path, "r") : NULL;
    if (!file) {
        return;
    }
    if (fseek(file, from, SEEK_SET) == 0) {
        while (fgets(line, sizeof line, file)) {
            read_line(t, line);
        }
    }
    (void)fclose(file);
}

double trace_lines_median_us(const struct trace_lines *t, const char *method, const char *name)
{
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->series[i].method, method) == 0 && strcmp(t->series[i].name, name) == 0) {
            return samples_percentile_us(&t->series[i].samples, 50);
        }
    }
    return 0;
}
