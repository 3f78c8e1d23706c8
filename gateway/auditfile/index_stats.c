#include "gateway/auditfile/index_stats.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_FIRST = 1024, KIND_NONE = 0, KIND_ALLOWED = 1, KIND_DENIED = 2 };

/* Groups by their key. */
struct table {
    struct index_group *groups;
    size_t count, room;
    uint32_t *slots; /* place + 1; 0: free */
    size_t slot_count;
    struct index_count rest;
};

struct counting {
    struct index_scan *scan;
    const struct index_stats_hashes *hashes;
    uint8_t kinds[INDEX_CHUNK_ROWS];
    uint64_t values[INDEX_CHUNK_ROWS];
    uint8_t events[INDEX_CHUNK_ROWS];
};

void index_table_free(struct index_table *t)
{
    free(t->groups);
    *t = (struct index_table){0};
}

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory for the statistics");
}

/* ---- groups ---- */

static size_t slot_of(const struct table *t, uint64_t key)
{
    size_t slot = (size_t)((key * 0x9e3779b97f4a7c15) >> 32) & (t->slot_count - 1);
    while (t->slots[slot] != 0 && t->groups[t->slots[slot] - 1].key != key) {
        slot = (slot + 1) & (t->slot_count - 1);
    }
    return slot;
}

static bool grow(struct table *t)
{
    size_t room = t->room ? t->room * 2 : SLOTS_FIRST / 2;
    struct index_group *groups = realloc(t->groups, room * sizeof *groups);
    t->groups = groups ? groups : t->groups;
    uint32_t *slots = calloc(room * 2, sizeof *slots);
    if (!groups || !slots) {
        free(slots);
        return false;
    }
    free(t->slots);
    t->slots = slots;
    t->slot_count = room * 2;
    t->room = room;
    for (size_t i = 0; i < t->count; i++) {
        t->slots[slot_of(t, t->groups[i].key)] = (uint32_t)i + 1;
    }
    return true;
}

/* The group of a key; NULL when there is no room for one more, or with *ok false no memory. */
static struct index_group *find_group(struct table *t, uint64_t key, bool *ok)
{
    if (t->count == t->room && (t->count < INDEX_GROUPS_MAX && !grow(t))) {
        *ok = false;
        return NULL;
    }
    size_t slot = slot_of(t, key);
    if (t->slots[slot] == 0) {
        if (t->count == INDEX_GROUPS_MAX) {
            return NULL;
        }
        t->groups[t->count] = (struct index_group){.key = key};
        t->slots[slot] = (uint32_t)++t->count;
    }
    return &t->groups[t->slots[slot] - 1];
}

static void add(struct index_count *c, uint8_t kind, uint64_t lines)
{
    c->lines += lines;
    c->allowed += kind == KIND_ALLOWED ? lines : 0;
    c->denied += kind == KIND_DENIED ? lines : 0;
}

/* ---- one chunk ---- */

/* Which rows are decisions, and which way. */
static int read_kinds(struct counting *c, struct index_count *all, struct error *err)
{
    const struct index_cell *cell;
    size_t rows = index_scan_rows(c->scan);
    int rc = index_scan_column(c->scan, (enum index_column)LINE_EVENT, &cell, err);
    if (rc) {
        return rc;
    }
    memset(c->events, 0, rows);
    index_cell_match(cell, &c->hashes->decision, 1, c->events);
    rc = index_scan_column(c->scan, (enum index_column)LINE_DECISION, &cell, err);
    for (size_t i = 0; rc == 0 && i < rows; i++) {
        uint64_t value = c->events[i] ? index_cell_at(cell, i) : 0;
        c->kinds[i] = value == c->hashes->allowed  ? KIND_ALLOWED
                      : value == c->hashes->denied ? KIND_DENIED
                                                   : KIND_NONE;
        if (index_scan_is_wanted(c->scan, i)) {
            add(all, c->kinds[i], 1);
        }
    }
    return rc;
}

static int read_keys(struct counting *c, const struct index_key *key, struct error *err)
{
    const struct index_cell *cell;
    size_t rows = index_scan_rows(c->scan);
    int rc = index_scan_column(c->scan, key->column, &cell, err);
    if (rc) {
        return rc;
    }
    index_cell_unpack(cell, c->values);
    for (size_t i = 0; key->span_ns && i < rows; i++) {
        c->values[i] -= c->values[i] % key->span_ns;
    }
    rc = key->has_second ? index_scan_column(c->scan, key->second, &cell, err) : 0;
    for (size_t i = 0; rc == 0 && key->has_second && i < rows; i++) {
        uint64_t second = index_cell_at(cell, i);
        if (c->values[i] | second) {
            c->values[i] = (c->values[i] * 0x9e3779b97f4a7c15) ^ second;
        }
    }
    return rc;
}

/* Rows of one key often follow each other. */
static int count_rows(struct counting *c, struct table *t, struct error *err)
{
    struct index_group *group = NULL;
    bool ok = true;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < index_scan_rows(c->scan); i++) {
        if (!index_scan_is_wanted(c->scan, i)) {
            continue;
        }
        group = group && group->key == c->values[i] ? group : find_group(t, c->values[i], &ok);
        if (!ok) {
            return no_memory(err);
        }
        if (group && group->count.lines == 0) {
            rc = index_scan_locate(c->scan, i, &group->newest, err);
        }
        add(group ? &group->count : &t->rest, c->kinds[i], 1);
    }
    return rc;
}

static int count_chunk(struct counting *c, const struct index_key *keys, size_t key_count,
                       struct table *tables, struct index_count *all, struct error *err)
{
    int rc = read_kinds(c, all, err);
    for (size_t i = 0; rc == 0 && i < key_count; i++) {
        rc = read_keys(c, &keys[i], err);
        rc = rc ? rc : count_rows(c, &tables[i], err);
    }
    return rc == -STATUS_NOT_FOUND ? 0 : rc; /* the chunk has gone: so did its lines */
}

int index_stats_run(struct index_scan *scan, const struct index_stats_hashes *hashes,
                    const struct index_key *keys, size_t key_count, bool (*stop)(void *arg),
                    void *arg, struct index_table *ret_tables, struct index_count *ret_all,
                    struct error *err)
{
    struct counting *c = calloc(1, sizeof *c);
    struct table *tables = calloc(key_count + 1, sizeof *tables);
    int rc = c && tables ? 1 : no_memory(err);
    *ret_all = (struct index_count){0};
    while (rc == 1 && (rc = index_scan_next(scan, err)) == 1) {
        c->scan = scan;
        c->hashes = hashes;
        rc = stop(arg) ? error_set(err, STATUS_CANCELLED, "nobody waits for it any more")
                       : count_chunk(c, keys, key_count, tables, ret_all, err);
        rc = rc ? rc : 1;
    }
    for (size_t i = 0; tables && i < key_count; i++) {
        ret_tables[i] = (struct index_table){tables[i].groups, tables[i].count, tables[i].rest};
        free(tables[i].slots);
        if (rc) {
            index_table_free(&ret_tables[i]);
        }
    }
    free(tables);
    free(c);
    return rc;
}
