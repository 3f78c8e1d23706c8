/* A line of the audit log, as a server sends it, told to a person on a terminal: whatever it holds,
 * nothing that a terminal obeys comes out. */
#include <stdlib.h>

#include "gateway/cli/audit_printer.h"
#include "gateway/cli/audit_story.h"
#include "gateway/rpc/codec.h"
#include "policy/base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ARENA_BYTES_MAX = 64 << 20,
    OUTPUT_BYTES_MAX = 16 << 20,
    INPUT_BYTES_MAX = 8192,
    WIDTH = 60
};

static void check_safe(const struct buf *out)
{
    struct str rest = buf_str(out);
    while (!out->failed && rest.len > 0) {
        uint32_t c = 0;
        size_t n = utf8_decode(rest, &c);
        if (n == 0 || (c < 0x20 && c != '\n') || (c >= 0x7F && c < 0xA0) ||
            (c >= 0x2028 && c <= 0x202E)) {
            abort();
        }
        rest = str_make(rest.ptr + n, rest.len - n);
    }
}

static void tell(Ext__AuditRecord *record, struct arena *arena)
{
    struct buf out;
    Ext__AuditStory story = EXT__AUDIT_STORY__INIT;
    struct page page = {&out, WIDTH, false};
    buf_init(&out, OUTPUT_BYTES_MAX);
    story.records = &record;
    story.n_records = 1;
    (void)audit_story_print(&story, arena, &page);
    check_safe(&out);
    buf_free(&out);
}

static void add_row(const Ext__AuditRecord *record, struct arena *arena)
{
    static const struct table_column columns[AUDIT_COLUMNS] = {
        {"a", 3, 9, true},  {"b", 3, 9, false}, {"c", 3, 9, false},
        {"d", 3, 9, false}, {"e", 3, 9, false}, {"f", 3, 9, false},
        {"g", 3, 9, false}, {"h", 3, 9, false}, {"i", 3, 9, false}};
    struct buf out;
    struct table_cell cells[AUDIT_COLUMNS];
    struct table table = {.columns = columns, .count = AUDIT_COLUMNS, .width_max = WIDTH};
    struct audit_line line = audit_line_of(record, arena);
    buf_init(&out, OUTPUT_BYTES_MAX);
    if (audit_row_make(&line, true, arena, cells)) {
        table_fit(&table, cells, 1);
        table_add_row(&table, cells, &out);
    }
    check_safe(&out);
    buf_free(&out);
}

/* The line's first byte says what the server takes it for. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *const kinds[] = {"AccessLog", "RunLog", "NetworkLog", ""};
    static char *const events[] = {"DECISION", "END", "RUN_END", ""};
    struct arena arena;
    if (size < 1 || size > INPUT_BYTES_MAX) {
        return 0;
    }
    arena_init(&arena, ARENA_BYTES_MAX);
    Ext__AuditRecord record = EXT__AUDIT_RECORD__INIT;
    char *text = arena_strndup(&arena, (const char *)data + 1, size - 1);
    if (text) {
        record.kind = kinds[data[0] & 3];
        record.event = events[data[0] >> 2 & 3];
        record.line = text;
        record.user = text;
        record.outcome = data[0] & 16 ? text : record.outcome;
        tell(&record, &arena);
        add_row(&record, &arena);
    }
    arena_free(&arena);
    return 0;
}
