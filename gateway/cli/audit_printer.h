#ifndef CLI_AUDIT_PRINTER_H
#define CLI_AUDIT_PRINTER_H

#include "api/audit.pb-c.h"
#include "gateway/cli/audit_line.h"
#include "gateway/cli/table.h"

/* Lines of the audit log on standard output: as a table, or as they are. */

enum audit_form { AUDIT_TABLE, AUDIT_JSONL, AUDIT_JSON, AUDIT_YAML };

enum { AUDIT_COLUMNS = 9, AUDIT_ENDS_MAX = 500 /* a page has no more lines */ };

struct audit_printer {
    enum audit_form form;
    /* A decision whose end is shown too is no row of its own. */
    bool joins_ends;
    /* Rows come one at a time and end never: columns have fixed widths. */
    bool is_endless;
    bool with_date;
    struct table table;
    bool has_begun;
    uint64_t lines; /* given so far */
    /* Requests whose ends the page before had: their decisions may be on this one. */
    char ended[AUDIT_ENDS_MAX][33];
    size_t ended_count;
};

/* format  of -o; NULL: a table on a terminal, else JSON lines */
struct audit_printer audit_printer_for(const char *format);

/* In their order. UNAVAILABLE: standard output takes no more. */
int audit_printer_add(struct audit_printer *p, Ext__AuditRecord *const *records, size_t count,
                      struct error *err);

/* Ends what was begun. */
int audit_printer_end(struct audit_printer *p, struct error *err);

/* The cells of a row, texts in the arena; false: it is full. */
bool audit_row_make(const struct audit_line *line, bool with_date, struct arena *arena,
                    struct table_cell cells[AUDIT_COLUMNS]);

#endif
