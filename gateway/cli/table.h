#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdio.h>

#include "gateway/cli/output.h"
#include "policy/base/bytes.h"

/* Rows of cells under titles, for a person: escaped, padded, and on a terminal cut to its width. */
enum { TABLE_COLUMNS_MAX = 12 };

struct table_column {
    const char *title;
    size_t
        narrowest;  /* columns of the terminal that it keeps when room is short; 0: all it needs */
    size_t usual;   /* when rows are shown as they come */
    bool is_number; /* stands to the right */
};

struct table_cell {
    const char *text;
    enum output_style style;
};

struct table {
    const struct table_column *columns; /* borrowed */
    size_t count;
    size_t width_max; /* of a row; 0: as wide as it is */
    bool has_colours;
    size_t widths[TABLE_COLUMNS_MAX];
};

/* For a stream: its width and whether it shows colours. Columns have their usual widths, cut to
 * fit. */
struct table table_for(FILE *to, const struct table_column *columns, size_t count);

/* Makes the columns as wide as these rows need, cut to fit. */
void table_fit(struct table *t, const struct table_cell *cells, size_t rows);

void table_add_titles(const struct table *t, struct buf *out);
void table_add_row(const struct table *t, const struct table_cell *cells, struct buf *out);

#endif
