#include "gateway/cli/output.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "gateway/cli/field.h"
#include "gateway/cli/table.h"
#include "gateway/rpc/codec.h"
#include "policy/base/bytes.h"
#include "policy/base/utf8.h"

enum { OUTPUT_MAX_BYTES = 256 * 1024 * 1024, COLUMNS_DEFAULT = 80, NOTE_MAX_BYTES = 4096 };

struct range {
    uint32_t first, last;
};

static bool is_within(uint32_t c, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (c >= ranges[i].first && c <= ranges[i].last) {
            return true;
        }
    }
    return false;
}

#define IS_WITHIN(c, ranges) is_within(c, ranges, sizeof(ranges) / sizeof *(ranges))

/* Control characters (C0, DEL, C1); joiners, marks of direction and other characters that are not
 * seen but change what is; ends of lines that are none for us; tags. */
static bool is_hidden(uint32_t c)
{
    static const struct range ranges[] = {
        {0x00, 0x1F},     {0x7F, 0x9F},     {0xAD, 0xAD},       {0x61C, 0x61C},   {0x115F, 0x1160},
        {0x180E, 0x180E}, {0x200B, 0x200F}, {0x2028, 0x202E},   {0x2060, 0x206F}, {0x3164, 0x3164},
        {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB}, {0xE0000, 0xE0FFF},
    };
    return IS_WITHIN(c, ranges);
}

void output_escape(struct str text, bool keep_lines, struct buf *out)
{
    for (size_t i = 0; i < text.len;) {
        uint32_t c = 0;
        size_t n = utf8_decode(str_make(text.ptr + i, text.len - i), &c);
        if (n == 0) {
            buf_printf(out, "\\x%02x", (unsigned char)text.ptr[i]);
            n = 1;
        } else if (!is_hidden(c) || (keep_lines && c == '\n')) {
            buf_add(out, text.ptr + i, n);
        } else {
            buf_printf(out, c > 0xFFFF ? "\\u{%x}" : "\\u%04x", (unsigned)c);
        }
        i += n;
    }
}

/* Unicode's East Asian Width (UAX 11) in the rough, and marks that stand on what is before them. */
static size_t width_of(uint32_t c)
{
    static const struct range wide[] = {
        {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97F},
        {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF01, 0xFF60},
        {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF},
        {0x20000, 0x3FFFD},
    };
    static const struct range marks[] = {
        {0x300, 0x36F},   {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
        {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F},
    };
    return IS_WITHIN(c, wide) ? 2 : IS_WITHIN(c, marks) ? 0 : 1;
}

struct str output_head(struct str text, size_t columns)
{
    size_t used = 0;
    size_t i = 0;
    while (i < text.len) {
        uint32_t c = 0;
        size_t n = utf8_decode(str_make(text.ptr + i, text.len - i), &c);
        used += n > 0 ? width_of(c) : 1;
        if (used > columns) {
            break;
        }
        i += n > 0 ? n : 1;
    }
    return str_make(text.ptr, i);
}

size_t output_width(struct str text)
{
    size_t width = 0;
    for (size_t i = 0; i < text.len;) {
        uint32_t c = 0;
        size_t n = utf8_decode(str_make(text.ptr + i, text.len - i), &c);
        width += n > 0 ? width_of(c) : 1;
        i += n > 0 ? n : 1;
    }
    return width;
}

size_t output_columns(FILE *to)
{
    struct winsize size = {0};
    if (!isatty(fileno(to))) {
        return 0;
    }
    return ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                        : COLUMNS_DEFAULT;
}

bool output_has_colours(FILE *to)
{
    const char *unwanted = getenv("NO_COLOR"); /* https://no-color.org */
    const char *terminal = getenv("TERM");
    return isatty(fileno(to)) && !(unwanted && unwanted[0]) && terminal &&
           strcmp(terminal, "dumb") != 0;
}

const char *output_style_code(enum output_style style)
{
    static const char *const codes[] = {
        [OUTPUT_PLAIN] = "\033[0m", [OUTPUT_BOLD] = "\033[1m",   [OUTPUT_DIM] = "\033[2m",
        [OUTPUT_RED] = "\033[31m",  [OUTPUT_GREEN] = "\033[32m", [OUTPUT_YELLOW] = "\033[33m",
    };
    return codes[style];
}

int output_write(FILE *to, struct str text, struct error *err)
{
    struct buf safe;
    buf_init(&safe, OUTPUT_MAX_BYTES);
    if (isatty(fileno(to))) {
        output_escape(text, true, &safe);
        text = buf_str(&safe);
    }
    int status =
        safe.failed ? error_set(err, STATUS_RESOURCE_EXHAUSTED,
                                "the output is too long to be shown: write it to a file")
        : (text.len > 0 && fwrite(text.ptr, 1, text.len, to) != text.len) || fflush(to) != 0
            ? error_set(err, STATUS_UNAVAILABLE, "cannot write the output")
            : 0;
    buf_free(&safe);
    return status;
}

void output_note(const char *format, ...)
{
    char text[NOTE_MAX_BYTES];
    struct buf safe;
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    buf_init(&safe, NOTE_MAX_BYTES * 8);
    output_escape(str_from(text), true, &safe);
    fprintf(stderr, "cordium: %.*s\n", (int)safe.len, (const char *)safe.ptr);
    buf_free(&safe);
}

int output_message(const ProtobufCMessage *message, const char *format, struct error *err)
{
    struct buf out;
    buf_init(&out, OUTPUT_MAX_BYTES);
    bool is_json = format && strcmp(format, "json") == 0;
    int status =
        is_json ? codec_encode_json(message, &out, err) : codec_encode_yaml(message, &out, err);
    if (status == 0 && is_json) {
        buf_add_u8(&out, '\n');
    }
    status = status < 0 ? status : output_write(stdout, buf_str(&out), err);
    buf_free(&out);
    return status;
}

void output_table(const char *const *titles, size_t columns, const char *const *cells, size_t rows)
{
    struct buf out;
    struct table_column heads[TABLE_COLUMNS_MAX] = {0};
    struct table_cell *table_cells = calloc(rows * columns + 1, sizeof *table_cells);
    for (size_t i = 0; i < columns; i++) {
        heads[i].title = titles[i];
    }
    for (size_t i = 0; table_cells && i < rows * columns; i++) {
        table_cells[i].text = cells[i];
    }
    buf_init(&out, OUTPUT_MAX_BYTES);
    struct table t = table_for(stdout, heads, columns);
    t.has_colours = false;
    table_fit(&t, table_cells, table_cells ? rows : 0);
    table_add_titles(&t, &out);
    for (size_t i = 0; table_cells && i < rows; i++) {
        table_add_row(&t, table_cells + i * columns, &out);
    }
    (void)fwrite(out.ptr, 1, out.len, stdout);
    if (out.failed || !table_cells) {
        fputs("cordium: out of memory\n", stderr);
    }
    buf_free(&out);
    free(table_cells);
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
