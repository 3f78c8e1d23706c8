#include "gateway/cli/audit_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gateway/text/json_reader.h"

enum { KEY_MAX_BYTES = 64, MILLION = 1000000, MINUTE_MS = 60000, HOUR_MS = 3600000 };

struct audit_line audit_line_of(const Ext__AuditRecord *record, struct arena *arena)
{
    struct audit_line line = {.record = record};
    struct error ignored;
    const struct tree_node *tree = NULL;
    if (json_read(str_from(record->line), arena, &tree, &ignored) == 0) {
        line.tree = tree;
    }
    return line;
}

const struct tree_node *audit_line_at(const struct audit_line *line, const char *path)
{
    const struct tree_node *node = line->tree;
    while (node && *path) {
        char key[KEY_MAX_BYTES];
        size_t n = strcspn(path, ".");
        if (n >= sizeof key) {
            return NULL;
        }
        memcpy(key, path, n);
        key[n] = '\0';
        node = tree_member(node, key);
        path += n + (path[n] == '.');
    }
    return node;
}

static const char *text_of(const struct tree_node *node)
{
    bool is_scalar =
        node && node->type != TREE_LIST && node->type != TREE_MAP && node->type != TREE_NULL;
    return is_scalar && node->text.ptr ? node->text.ptr : "";
}

static double number_of(const struct tree_node *node)
{
    return node && node->type == TREE_NUMBER ? strtod(node->text.ptr, NULL) : -1;
}

const char *audit_line_text(const struct audit_line *line, const char *path)
{
    return text_of(audit_line_at(line, path));
}

static bool is_true(const struct tree_node *node)
{
    return node && node->type == TREE_BOOL && tree_is_true(node);
}

bool audit_line_is(const struct audit_line *line, const char *path)
{
    return is_true(audit_line_at(line, path));
}

bool audit_node_is(const struct tree_node *map, const char *key)
{
    return is_true(tree_member(map, key));
}

double audit_line_number(const struct audit_line *line, const char *path)
{
    return number_of(audit_line_at(line, path));
}

const char *audit_node_text(const struct tree_node *map, const char *key)
{
    return text_of(tree_member(map, key));
}

double audit_node_number(const struct tree_node *map, const char *key)
{
    return number_of(tree_member(map, key));
}

bool audit_line_is_decision(const struct audit_line *line)
{
    return strcmp(line->record->event, "DECISION") == 0;
}

bool audit_line_is_end(const struct audit_line *line)
{
    return strcmp(line->record->event, "END") == 0;
}

const char *audit_method_text(const char *method)
{
    static const char main_service[] = "MainService/";
    const char *slash = strrchr(method, '/');
    if (method[0] != '/' || !slash || slash == method) {
        return method;
    }
    const char *service = slash;
    while (service > method + 1 && service[-1] != '.') {
        service--;
    }
    return strncmp(service, main_service, sizeof main_service - 1) == 0 ? slash + 1 : service;
}

void audit_time_text(const Google__Protobuf__Timestamp *time, bool with_date,
                     char ret[AUDIT_TIME_SIZE])
{
    struct tm tm;
    time_t seconds = time ? (time_t)time->seconds : 0;
    ret[0] = '\0';
    if (!time || !gmtime_r(&seconds, &tm) || tm.tm_year < -1900 || tm.tm_year > 8099) {
        return;
    }
    char date[24] = "";
    if (with_date) {
        (void)snprintf(date, sizeof date, "%04d-%02d-%02d ", (tm.tm_year + 1900) % 10000,
                       tm.tm_mon + 1, tm.tm_mday);
    }
    (void)snprintf(ret, AUDIT_TIME_SIZE, "%s%02d:%02d:%02d.%03d", date, tm.tm_hour, tm.tm_min,
                   tm.tm_sec, (int)(time->nanos / MILLION) % 1000);
}

void audit_duration_text(double ms, char ret[AUDIT_AMOUNT_SIZE])
{
    if (ms < 0) {
        ret[0] = '\0';
    } else if (ms < 1) {
        (void)snprintf(ret, AUDIT_AMOUNT_SIZE, "%.0f us", ms * 1000);
    } else if (ms < 1000) {
        (void)snprintf(ret, AUDIT_AMOUNT_SIZE, ms < 100 ? "%.1f ms" : "%.0f ms", ms);
    } else if (ms < MINUTE_MS) {
        (void)snprintf(ret, AUDIT_AMOUNT_SIZE, "%.2f s", ms / 1000);
    } else if (ms < HOUR_MS) {
        unsigned long s = (unsigned long)(ms / 1000);
        (void)snprintf(ret, AUDIT_AMOUNT_SIZE, "%lu min %02lu s", s / 60, s % 60);
    } else {
        double minutes = ms / MINUTE_MS;
        (void)snprintf(ret, AUDIT_AMOUNT_SIZE, "%.0f h %02.0f min", (double)(long)(minutes / 60),
                       minutes - (double)(long)(minutes / 60) * 60);
    }
}

void audit_bytes_text(double bytes, char ret[AUDIT_AMOUNT_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    if (bytes < 0) {
        ret[0] = '\0';
        return;
    }
    for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) {
        bytes /= 1024;
    }
    bool is_whole = bytes == (double)(long)bytes;
    (void)snprintf(ret, AUDIT_AMOUNT_SIZE,
                   is_whole || unit == 0 || bytes >= 100 ? "%.0f %s" : "%.1f %s", bytes,
                   units[unit]);
}
