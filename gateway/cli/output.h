#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdio.h>

#include "gateway/cli/cli.h"
#include "gateway/cli/kinds.h"
#include "policy/base/bytes.h"

/* Text from elsewhere on its way to a person: what a terminal would obey (control characters), what
 * turns the direction of text or cannot be seen, and bytes that are no UTF-8 become escapes that
 * can be read: "\u001b", "\u{e0041}", "\x9b". Where a line ends stays when `keep_lines` says so. */
void output_escape(struct str text, bool keep_lines, struct buf *out);

/* Columns that a text without control characters takes on a terminal. */
size_t output_width(struct str text);

/* The longest beginning of a text that takes so many columns. */
struct str output_head(struct str text, size_t columns);

/* Writes and flushes text of lines: as it is into files and pipes, escaped to a terminal. */
int output_write(FILE *to, struct str text, struct error *err);

/* "cordium: …" as a line on standard error, escaped. */
void output_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Columns of the terminal that a stream is; 0: it is none. */
size_t output_columns(FILE *to);

/* A terminal that shows colours to somebody who wants them: neither NO_COLOR nor TERM=dumb. */
bool output_has_colours(FILE *to);

enum output_style {
    OUTPUT_PLAIN,
    OUTPUT_BOLD,
    OUTPUT_DIM,
    OUTPUT_RED,
    OUTPUT_GREEN,
    OUTPUT_YELLOW
};

/* What switches to a style, and OUTPUT_PLAIN back. */
const char *output_style_code(enum output_style style);

/* One message on standard output as YAML, or JSON when the format says so. */
int output_message(const ProtobufCMessage *message, const char *format, struct error *err);

/* A list as a table (the default), JSON or YAML. */
int output_list(struct cli *cli, const struct kind *kind, const ProtobufCMessage *list,
                const char *format, struct error *err);

/* Rows of cells, columns padded; titles first. Cells are escaped. */
void output_table(const char *const *titles, size_t columns, const char *const *cells, size_t rows);

/* A line on standard error while something long goes on; shown only on a terminal, replaced by the
 * next one. NULL clears it. */
void output_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void output_progress_clear(void);

#endif
