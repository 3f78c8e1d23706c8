#include "gateway/auditfile/index_cell.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The numbers are in the file. */
enum form {
    FORM_SAME = 1,   /* all rows have one value */
    FORM_COUNT = 2,  /* each is the one before plus 1 */
    FORM_CODE8 = 3,  /* a byte a row: its place in the codebook */
    FORM_CODE16 = 4, /* two bytes */
    FORM_ABOVE = 5,  /* four bytes: what is above the least value */
    FORM_PLAIN = 6,  /* eight bytes */
};

enum { SLOTS = 4 * INDEX_CHUNK_ROWS };

static_assert((SLOTS & (SLOTS - 1)) == 0, "a power of two");

/* ---- packing ---- */

/* The distinct values in the order in which they come, and for each row which it has. */
struct codebook {
    uint64_t values[INDEX_CHUNK_ROWS];
    size_t count;
    uint16_t codes[INDEX_CHUNK_ROWS];
    uint16_t slots[SLOTS]; /* code + 1; 0: free */
};

static uint16_t code_of(struct codebook *b, uint64_t value)
{
    size_t slot = (size_t)((value * 0x9e3779b97f4a7c15) >> 32) & (SLOTS - 1);
    while (b->slots[slot] != 0 && b->values[b->slots[slot] - 1] != value) {
        slot = (slot + 1) & (SLOTS - 1);
    }
    if (b->slots[slot] == 0) {
        b->values[b->count++] = value;
        b->slots[slot] = (uint16_t)b->count;
    }
    return (uint16_t)(b->slots[slot] - 1);
}

static void write_codes(const struct codebook *b, size_t n, struct buf *out)
{
    bool is_small = b->count <= 256;
    buf_add_u8(out, is_small ? FORM_CODE8 : FORM_CODE16);
    buf_add_u16(out, (uint16_t)(b->count - 1));
    buf_add(out, b->values, b->count * sizeof b->values[0]);
    if (!is_small) {
        buf_add(out, b->codes, n * sizeof b->codes[0]);
        return;
    }
    uint8_t *to = buf_reserve(out, n);
    for (size_t i = 0; to && i < n; i++) {
        to[i] = (uint8_t)b->codes[i];
    }
    out->len += to ? n : 0;
}

static void write_above(const uint64_t *values, size_t n, uint64_t least, struct buf *out)
{
    buf_add_u8(out, FORM_ABOVE);
    buf_add_u64(out, least);
    for (size_t i = 0; i < n; i++) {
        buf_add_u32(out, (uint32_t)(values[i] - least));
    }
}

void index_cell_write_plain(const uint64_t *values, size_t n, struct buf *out)
{
    buf_add_u8(out, FORM_PLAIN);
    buf_add(out, values, n * sizeof *values);
}

static bool counts_up(const uint64_t *values, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (values[i] != values[i - 1] + 1) {
            return false;
        }
    }
    return true;
}

static void write_varied(const uint64_t *values, size_t n, struct buf *out)
{
    struct codebook *b = calloc(1, sizeof *b);
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++) {
        least = values[i] < least ? values[i] : least;
        most = values[i] > most ? values[i] : most;
        if (b) {
            b->codes[i] = code_of(b, values[i]);
        }
    }
    size_t coded = b ? b->count * 8 + n * (b->count <= 256 ? 1 : 2) : SIZE_MAX;
    size_t above = most - least <= UINT32_MAX ? n * 4 : SIZE_MAX;
    if (coded <= above && coded < n * 8) {
        write_codes(b, n, out);
    } else if (above < n * 8) {
        write_above(values, n, least, out);
    } else {
        index_cell_write_plain(values, n, out);
    }
    free(b);
}

void index_cell_write(const uint64_t *values, size_t n, struct buf *out)
{
    size_t same = 1;
    while (same < n && values[same] == values[0]) {
        same++;
    }
    if (same == n || counts_up(values, n)) {
        buf_add_u8(out, same == n ? FORM_SAME : FORM_COUNT);
        buf_add_u64(out, values[0]);
    } else {
        write_varied(values, n, out);
    }
}

/* ---- looking ---- */

static bool read_codes(struct bytes *in, struct index_cell *c)
{
    uint16_t last;
    struct str values;
    if (!bytes_read_u16(in, &last) || last >= INDEX_CHUNK_ROWS ||
        !bytes_read_view(in, (last + 1U) * sizeof c->codes[0], &values)) {
        return false;
    }
    c->code_count = last + 1U;
    memcpy(c->codes, values.ptr, values.len);
    return c->form == FORM_CODE16 || c->code_count <= 256;
}

static uint16_t code16_at(const struct index_cell *c, size_t i)
{
    uint16_t code;
    memcpy(&code, c->bytes + i * sizeof code, sizeof code);
    return code;
}

/* A code without a value would be read beyond the codebook. */
static bool codes_are_valid(const struct index_cell *c)
{
    for (size_t i = 0; i < c->rows; i++) {
        size_t code = c->form == FORM_CODE8 ? c->bytes[i] : code16_at(c, i);
        if (code >= c->code_count) {
            return false;
        }
    }
    return true;
}

static size_t item_bytes(uint8_t form)
{
    switch (form) {
    case FORM_CODE8:
        return 1;
    case FORM_CODE16:
        return 2;
    case FORM_ABOVE:
        return 4;
    case FORM_PLAIN:
        return 8;
    default:
        return 0;
    }
}

bool index_cell_read(struct str bytes, size_t rows, struct index_cell *ret)
{
    struct bytes in = bytes_over(bytes.ptr, bytes.len);
    ret->rows = rows;
    ret->code_count = 0;
    if (rows == 0 || rows > INDEX_CHUNK_ROWS || !bytes_read_u8(&in, &ret->form) ||
        ret->form < FORM_SAME || ret->form > FORM_PLAIN) {
        return false;
    }
    bool has_codes = ret->form == FORM_CODE8 || ret->form == FORM_CODE16;
    bool has_first = ret->form == FORM_SAME || ret->form == FORM_COUNT || ret->form == FORM_ABOVE;
    if ((has_codes && !read_codes(&in, ret)) || (has_first && !bytes_read_u64(&in, &ret->first)) ||
        bytes_left(&in) < rows * item_bytes(ret->form)) {
        return false;
    }
    ret->bytes = in.next;
    return !has_codes || codes_are_valid(ret);
}

uint64_t index_cell_at(const struct index_cell *c, size_t i)
{
    uint32_t above;
    uint64_t plain;
    switch (c->form) {
    case FORM_SAME:
        return c->first;
    case FORM_COUNT:
        return c->first + i;
    case FORM_CODE8:
        return c->codes[c->bytes[i]];
    case FORM_CODE16:
        return c->codes[code16_at(c, i)];
    case FORM_ABOVE:
        memcpy(&above, c->bytes + i * sizeof above, sizeof above);
        return c->first + above;
    default:
        memcpy(&plain, c->bytes + i * sizeof plain, sizeof plain);
        return plain;
    }
}

void index_cell_unpack(const struct index_cell *c, uint64_t ret[INDEX_CHUNK_ROWS])
{
    for (size_t i = 0; i < c->rows; i++) {
        ret[i] = index_cell_at(c, i);
    }
}

static bool is_one_of(uint64_t value, const uint64_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (values[i] == value) {
            return true;
        }
    }
    return false;
}

static void match_codes(const struct index_cell *c, const uint64_t *values, size_t n, uint8_t *mask)
{
    uint8_t wanted[INDEX_CHUNK_ROWS];
    bool has_any = false;
    for (size_t i = 0; i < c->code_count; i++) {
        wanted[i] = is_one_of(c->codes[i], values, n);
        has_any = has_any || wanted[i];
    }
    for (size_t i = 0; has_any && i < c->rows; i++) {
        mask[i] |= c->form == FORM_CODE8 ? wanted[c->bytes[i]] : wanted[code16_at(c, i)];
    }
}

static void match_plain(const struct index_cell *c, uint64_t value, uint8_t *mask)
{
    for (size_t i = 0; i < c->rows; i++) {
        uint64_t v;
        memcpy(&v, c->bytes + i * sizeof v, sizeof v);
        mask[i] |= v == value;
    }
}

static void match_above(const struct index_cell *c, uint64_t value, uint8_t *mask)
{
    if (value - c->first > UINT32_MAX) {
        return;
    }
    uint32_t wanted = (uint32_t)(value - c->first);
    for (size_t i = 0; i < c->rows; i++) {
        uint32_t v;
        memcpy(&v, c->bytes + i * sizeof v, sizeof v);
        mask[i] |= v == wanted;
    }
}

void index_cell_match(const struct index_cell *c, const uint64_t *values, size_t n, uint8_t *mask)
{
    if (c->form == FORM_CODE8 || c->form == FORM_CODE16) {
        match_codes(c, values, n, mask);
        return;
    }
    if (c->form == FORM_SAME) {
        if (is_one_of(c->first, values, n)) {
            memset(mask, 1, c->rows);
        }
        return;
    }
    for (size_t k = 0; k < n; k++) {
        if (c->form == FORM_PLAIN) {
            match_plain(c, values[k], mask);
        } else if (c->form == FORM_ABOVE) {
            match_above(c, values[k], mask);
        } else if (values[k] - c->first < c->rows) {
            mask[values[k] - c->first] = 1;
        }
    }
}
