#include "gateway/cli/run_report.h"

#include <stdio.h>
#include <string.h>

#include "gateway/cli/output.h"
#include "policy/base/bytes.h"

enum { MEBIBYTE = 1024 * 1024, DESTINATIONS_SHOWN = 8, LINE_MAX_BYTES = 16 * 1024 };

static bool has_exit_code(const Ext__RunResult *r)
{
    return r->has_exit_code_case == EXT__RUN_RESULT__HAS_EXIT_CODE_EXIT_CODE;
}

static void add_outcome(struct buf *line, const Ext__RunResult *r)
{
    if (has_exit_code(r)) {
        buf_printf(line, "exited with %d", r->exit_code);
    } else if (r->signal && strcmp(r->outcome, "signaled") == 0) {
        buf_printf(line, "ended by %s", r->signal_name);
    } else {
        for (const char *c = r->outcome; *c; c++) {
            buf_add_u8(line, (uint8_t)(*c == '_' ? ' ' : *c));
        }
    }
}

static enum output_style style_of(const Ext__RunResult *r)
{
    return !has_exit_code(r) ? OUTPUT_RED : r->exit_code == 0 ? OUTPUT_GREEN : OUTPUT_YELLOW;
}

static void add_usage(struct buf *line, const Ext__RunUsage *u)
{
    buf_printf(line, "; %.3f s, %.3f s of CPU", (double)u->wall_ms / 1000,
               (double)u->cpu_ms / 1000);
    if (u->has_memory_peak_bytes_case) {
        buf_printf(line, ", %.1f MiB at most", (double)u->memory_peak_bytes / MEBIBYTE);
    }
    if (u->has_pids_peak_case) {
        buf_printf(line, ", %llu process%s at most", (unsigned long long)u->pids_peak,
                   u->pids_peak == 1 ? "" : "es");
    }
    if (u->has_io_read_bytes_case && u->io_reads + u->io_writes > 0) {
        buf_printf(line, ", %.1f MiB read and %.1f MiB written of the disk",
                   (double)u->io_read_bytes / MEBIBYTE, (double)u->io_write_bytes / MEBIBYTE);
    }
}

static void add_facts(struct buf *line, const Ext__RunResult *r)
{
    const Ext__RunResult__Facts *f = r->facts;
    if (f->oom_kills > 0 && strcmp(r->outcome, "oom_killed") != 0) {
        buf_printf(line,
                   f->oom_kills == 1 ? "; %u process inside was killed for memory"
                                     : "; %u processes inside were killed for memory",
                   f->oom_kills);
    }
    if (f->pids_denied > 0) {
        buf_add_cstr(line, "; its limit of processes was reached");
    }
    if (f->disk_full) {
        buf_add_cstr(line, "; its disk was full");
    }
    if (f->inodes_full) {
        buf_add_cstr(line, "; its limit of files was reached");
    }
}

static void report_denials(const Ext__RunResult__Facts *facts)
{
    const size_t shown = facts->n_denied_destinations < DESTINATIONS_SHOWN
                             ? facts->n_denied_destinations
                             : DESTINATIONS_SHOWN;
    uint64_t told = 0;
    struct buf line;
    buf_init(&line, LINE_MAX_BYTES);
    for (size_t i = 0; i < facts->n_denied_destinations; i++) {
        told += facts->denied_destinations[i]->packets;
    }
    for (size_t i = 0; i < shown; i++) {
        const Ext__RunResult__Destination *d = facts->denied_destinations[i];
        buf_printf(&line, "%s %s:%u/%s (%s)", i > 0 ? "," : "", d->address, d->port, d->protocol,
                   d->reason);
    }
    if (shown < facts->n_denied_destinations) {
        buf_printf(&line, "; destinations beside these: %zu", facts->n_denied_destinations - shown);
    }
    if (told < facts->network_denied) {
        buf_printf(&line, "; other packets: %llu",
                   (unsigned long long)(facts->network_denied - told));
    }
    output_note("network: refused%.*s", (int)line.len, (const char *)line.ptr);
    buf_free(&line);
}

void run_report_fate(const Ext__RunResult *r)
{
    const bool has_colours = output_has_colours(stderr);
    struct buf outcome;
    struct buf rest;
    struct buf safe;
    buf_init(&outcome, LINE_MAX_BYTES);
    buf_init(&rest, LINE_MAX_BYTES);
    buf_init(&safe, 8 * LINE_MAX_BYTES);
    add_outcome(&outcome, r);
    if (r->detail[0]) {
        buf_printf(&rest, ": %s", r->detail);
    }
    if (r->usage) {
        add_usage(&rest, r->usage);
    }
    if (r->facts) {
        add_facts(&rest, r);
    }
    buf_printf(&rest, " (run %s)", r->run_id);
    output_escape(buf_str(&outcome), false, &safe);
    if (has_colours) {
        buf_add_cstr(&safe, output_style_code(OUTPUT_PLAIN));
    }
    output_escape(buf_str(&rest), false, &safe);
    fprintf(stderr, "%scordium: %s%.*s\n", has_colours ? output_style_code(OUTPUT_PLAIN) : "",
            has_colours ? output_style_code(style_of(r)) : "", (int)safe.len,
            (const char *)safe.ptr);
    buf_free(&outcome);
    buf_free(&rest);
    buf_free(&safe);
    if (r->facts && r->facts->network_denied > 0) {
        report_denials(r->facts);
    }
}

void run_report_skipped(const Ext__RunCollected *file)
{
    struct buf name; /* a line of ours is one line */
    buf_init(&name, LINE_MAX_BYTES);
    output_escape(str_from(file->path), false, &name);
    output_note("file '%.*s' left out (%s), %llu bytes", (int)name.len, (const char *)name.ptr,
                file->skipped, (unsigned long long)file->size_bytes);
    buf_free(&name);
}

void run_report_left_out(uint32_t count)
{
    output_note("%u more files were left out", count);
}

void run_report_dropped(uint64_t bytes)
{
    output_note("%llu bytes were dropped here", (unsigned long long)bytes);
}
