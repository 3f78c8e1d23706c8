#include "gateway/cli/output.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/cli/field.h"
#include "gateway/rpc/codec.h"
#include "policy/base/bytes.h"
#include "policy/base/utf8.h"

enum { OUTPUT_MAX_BYTES = 256 * 1024 * 1024 };

int output_message(const ProtobufCMessage *message, const char *format, struct error *err)
{
    struct buf out;
    buf_init(&out, OUTPUT_MAX_BYTES);
    bool is_json = format && strcmp(format, "json") == 0;
    int status =
        is_json ? codec_encode_json(message, &out, err) : codec_encode_yaml(message, &out, err);
    if (status == 0) {
        if (is_json) {
            buf_add_u8(&out, '\n');
        }
        if (fwrite(out.ptr, 1, out.len, stdout) != out.len || fflush(stdout) != 0) {
            status = error_set(err, STATUS_UNAVAILABLE, "cannot write to standard output");
        }
    }
    buf_free(&out);
    return status;
}

static size_t width(const char *cell)
{
    return utf8_count(str_from(cell));
}

static void print_cell(const char *cell, size_t padded_to)
{
    for (const char *p = cell; *p; p++) {
        putchar((unsigned char)*p < 0x20 || *p == 0x7F ? '?' : *p);
    }
    for (size_t n = width(cell); n < padded_to; n++) {
        putchar(' ');
    }
}

void output_table(const char *const *titles, size_t columns, const char *const *cells, size_t rows)
{
    for (size_t row = 0; row <= rows; row++) {
        const char *const *line = row == 0 ? titles : cells + (row - 1) * columns;
        for (size_t c = 0; c < columns; c++) {
            size_t widest = width(titles[c]);
            for (size_t r = 0; r < rows; r++) {
                size_t w = width(cells[r * columns + c]);
                widest = w > widest ? w : widest;
            }
            print_cell(line[c], c + 1 < columns ? widest + 2 : 0);
        }
        putchar('\n');
    }
}

static void print_list_table(struct cli *cli, const struct kind *kind, ProtobufCMessage **items,
                             size_t count)
{
    const char *titles[KIND_COLUMNS_MAX];
    size_t columns = 0;
    while (columns < KIND_COLUMNS_MAX && kind->columns[columns].title) {
        titles[columns] = kind->columns[columns].title;
        columns++;
    }
    const char **cells = cli_alloc(cli, sizeof *cells * columns * count);
    for (size_t i = 0; i < count; i++) {
        for (size_t c = 0; c < columns; c++) {
            cells[i * columns + c] = field_text(items[i], kind->columns[c].path, &cli->arena);
        }
    }
    output_table(titles, columns, cells, count);
}

int output_list(struct cli *cli, const struct kind *kind, const ProtobufCMessage *list,
                const char *format, struct error *err)
{
    if (format && strcmp(format, "table") != 0) {
        return output_message(list, format, err);
    }
    ProtobufCMessage **items = NULL;
    size_t count = field_items(list, &items);
    if (count == 0) {
        printf("No %s Found\n", kind->plural);
        return 0;
    }
    print_list_table(cli, kind, items, count);
    return 0;
}

void output_progress_clear(void)
{
    if (isatty(STDERR_FILENO)) {
        fputs("\r\033[K", stderr);
    }
}

void output_progress(const char *format, ...)
{
    if (!isatty(STDERR_FILENO)) {
        return;
    }
    output_progress_clear();
    va_list ap;
    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    fflush(stderr);
}
