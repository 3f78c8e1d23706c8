#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "gateway/cli/cli.h"
#include "gateway/cli/kinds.h"

/* One message on standard output as YAML, or JSON when the format says so. */
int output_message(const ProtobufCMessage *message, const char *format, struct error *err);

/* A list as a table (the default), JSON or YAML. */
int output_list(struct cli *cli, const struct kind *kind, const ProtobufCMessage *list,
                const char *format, struct error *err);

/* Rows of cells, columns padded; titles first. Control characters in cells are shown as '?'. */
void output_table(const char *const *titles, size_t columns, const char *const *cells, size_t rows);

/* A line on standard error while something long goes on; shown only on a terminal, replaced by the
 * next one. NULL clears it. */
void output_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void output_progress_clear(void);

#endif
