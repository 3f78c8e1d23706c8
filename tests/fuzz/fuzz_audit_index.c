/* What the index of the audit log reads: lines, by the first byte, or packed columns of its
 * database. What a reading of the whole tree tells of a line's texts, the quick one tells too. */
#include <stdlib.h>
#include <string.h>

#include "gateway/auditfile/index_cell.h"
#include "gateway/auditfile/line_fields.h"
#include "gateway/text/json_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_MAX_BYTES = 64 << 20 };

static const struct tree_node *at(const struct tree_node *n, const char *a, const char *b)
{
    return tree_member(tree_member(n, a), b);
}

/* Where members come once each, as in our lines, the two readers agree. */
static void compare(const struct tree_node *line, const struct line_fields *got)
{
    const struct tree_node *common = at(line, "entry", "common");
    const struct {
        enum line_field field;
        const struct tree_node *node;
    } pairs[] = {
        {LINE_KIND, tree_member(line, "kind")},
        {LINE_ID, at(line, "metadata", "id")},
        {LINE_REQUEST_ID, at(line, "cordium", "requestID")},
        {LINE_USER, at(common, "userRef", "name")},
        {LINE_REASON, at(common, "reason", "type")},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct tree_node *n = pairs[i].node;
        bool is_text = n && n->type == TREE_STRING;
        struct str text = got->text[pairs[i].field];
        if (is_text ? !str_eq(text, n->text) : text.ptr != NULL) {
            abort();
        }
    }
}

/* Without white space and escapes, which the quick reader does not expect outside of texts and in
 * keys. */
static bool is_like_ours(struct str line)
{
    for (size_t i = 0; i < line.len; i++) {
        if ((unsigned char)line.ptr[i] <= ' ' || line.ptr[i] == '\\') {
            return false;
        }
    }
    return true;
}

static void read_line(struct str line)
{
    struct arena arena;
    struct line_fields fields;
    const struct tree_node *tree;
    struct error ignored;
    arena_init(&arena, ARENA_MAX_BYTES);
    bool is_read = line_fields_read(line, &arena, &fields);
    if (is_read && is_like_ours(line) && json_read(line, &arena, &tree, &ignored) == 0) {
        compare(tree, &fields);
    }
    (void)line_path_tail(fields.text[LINE_PATH]);
    (void)line_peer_address(fields.text[LINE_PEER]);
    arena_free(&arena);
}

static void read_cell(struct str bytes, size_t rows)
{
    static struct index_cell cell;
    static uint64_t values[INDEX_CHUNK_ROWS];
    static uint8_t mask[INDEX_CHUNK_ROWS];
    if (!index_cell_read(bytes, rows, &cell)) {
        return;
    }
    index_cell_unpack(&cell, values);
    const uint64_t wanted[] = {values[0], values[rows - 1], 7};
    memset(mask, 0, sizeof mask);
    index_cell_match(&cell, wanted, 3, mask);
    for (size_t i = 0; i < rows; i++) {
        bool is_wanted = values[i] == wanted[0] || values[i] == wanted[1] || values[i] == 7;
        if (mask[i] != is_wanted || values[i] != index_cell_at(&cell, i)) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) {
        return 0;
    }
    struct str rest = str_make(data + 3, size - 3);
    if (data[0] % 2) {
        read_line(rest);
    } else {
        read_cell(rest, (size_t)data[1] + 256U * data[2]);
    }
    return 0;
}
