/* The index of the audit log: what it finds is what a reading of all lines finds, whatever happens
 * to the files. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "executor/proc/fd.h"
#include "gateway/auditfile/erase.h"
#include "gateway/auditfile/index_stats.h"
#include "gateway/auditfile/index_unread.h"
#include "gateway/auditfile/line.h"
#include "gateway/auditfile/line_index_internal.h"
#include "gateway/auditfile/log_query.h"
#include "gateway/auditfile/log_reader.h"
#include "gateway/state/sql.h"
#include "tests/unit/gateway/audit_fixture.h"

Suite *suite_audit_index(void);

enum { WAIT_MS = 20000, LINES_MAX = 40000 };

static struct audit_fixture f;
static struct line_index *ix;

/* ---- cells ---- */

static void check_cell(const uint64_t *values, size_t n, size_t bytes_max)
{
    static struct index_cell cell;
    static uint64_t unpacked[INDEX_CHUNK_ROWS];
    uint8_t mask[INDEX_CHUNK_ROWS] = {0};
    struct buf packed;
    buf_init(&packed, 1 << 20);
    index_cell_write(values, n, &packed);
    ck_assert_uint_le(packed.len, bytes_max);
    ck_assert(index_cell_read(buf_str(&packed), n, &cell));
    index_cell_unpack(&cell, unpacked);
    ck_assert_mem_eq(unpacked, values, n * sizeof *values);
    const uint64_t wanted[] = {values[n / 2], values[0]};
    index_cell_match(&cell, wanted, 2, mask);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(mask[i], values[i] == wanted[0] || values[i] == wanted[1]);
    }
    /* Fewer rows than were written may be asked for, more may not. */
    ck_assert(index_cell_read(buf_str(&packed), 1, &cell));
    ck_assert_uint_eq(index_cell_at(&cell, 0), values[0]);
    for (size_t cut = 0; cut < packed.len && cut < 64; cut++) {
        ck_assert(!index_cell_read(str_make(packed.ptr, cut), n, &cell));
    }
    buf_free(&packed);
}

START_TEST(columns_are_packed_and_read_back)
{
    static uint64_t v[INDEX_CHUNK_ROWS];
    const size_t sizes[] = {1, 2, 255, 256, 257, 4000, INDEX_CHUNK_ROWS};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t n = sizes[s];
        for (size_t i = 0; i < n; i++) {
            v[i] = 77;
        }
        check_cell(v, n, 9);
        for (size_t i = 0; i < n; i++) {
            v[i] = 1000 + i;
        }
        check_cell(v, n, 9);
        for (size_t i = 0; i < n; i++) {
            v[i] = (i * 7919) % 10 * 0x123456789abcdef;
        }
        check_cell(v, n, 100 + n);
        for (size_t i = 0; i < n; i++) {
            v[i] = (i * 7919) % 1000 * 0x123456789abcdef;
        }
        check_cell(v, n, 8 + 8 * n);
        for (size_t i = 0; i < n; i++) {
            v[i] = UINT64_MAX - (i * 2654435761U) % 4000000000;
        }
        check_cell(v, n, 16 + 4 * n);
        for (size_t i = 0; i < n; i++) {
            v[i] = (i + 1) * 0x9e3779b97f4a7c15;
        }
        check_cell(v, n, 16 + 8 * n);
    }
}
END_TEST

START_TEST(codes_beyond_the_codebook_are_refused)
{
    static struct index_cell cell;
    const uint8_t bytes[] = {3, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 5};
    ck_assert(index_cell_read(str_make(bytes, sizeof bytes - 1), 1, &cell));
    ck_assert(!index_cell_read(str_make(bytes, sizeof bytes), 2, &cell));
}
END_TEST

/* ---- fields ---- */

START_TEST(fields_are_found_without_a_tree)
{
    struct arena arena;
    struct line_fields got;
    const char *line =
        "{\"sequence\":5,\"prev\":\"00\",\"kind\":\"AccessLog\",\"metadata\":{\"id\":\"i-1\","
        "\"createdAt\":\"2026-11-30T03:56:18.500000000Z\",\"actorRef\":{\"name\":\"no\"}},"
        "\"entry\":"
        "{\"common\":{\"status\":\"DENIED\",\"reason\":{\"type\":\"POLICY_MATCH\",\"details\":{"
        "\"policyMatch\":{\"policy\":{\"policyRef\":{\"uid\":\"p-1\",\"name\":\"guard\"}},"
        "\"ruleName\":\"a \\\"quoted\\\" \\u00e9 "
        "rule\"}}},\"userRef\":{\"name\":\"ann\"}},\"info\":"
        "{\"http\":{\"request\":{\"path\":\"/oauth2/token\",\"method\":\"POST\"}}}},\"cordium\":{"
        "\"inWorkspace\":true,\"peer\":\"[2001:db8::1]:55\",\"run\":{\"envNames\":[\"}\",\"{\"]}}}";
    arena_init(&arena, 1 << 20);
    ck_assert(line_fields_read(str_from(line), &arena, &got));
    ck_assert(str_is(got.text[LINE_ID], "i-1"));
    ck_assert(str_is(got.text[LINE_RULE], "a \"quoted\" \xc3\xa9 rule"));
    ck_assert(str_is(got.text[LINE_POLICY], "guard"));
    ck_assert(str_is(got.text[LINE_USER], "ann"));
    ck_assert_ptr_null(got.text[LINE_SESSION].ptr);
    ck_assert(str_is(got.text[LINE_METHOD], "POST /oauth2/token"));
    ck_assert(got.in_workspace);
    ck_assert_int_eq(got.time_ns, 1796010978500000000);
    ck_assert(str_is(line_peer_address(got.text[LINE_PEER]), "[2001:db8::1]"));
    ck_assert(str_is(line_path_tail(STR("/a.b.Svc/M")), "Svc/M"));
    /* Each cut text is refused or harmless. */
    for (size_t cut = 0; cut < strlen(line); cut++) {
        ck_assert(!line_fields_read(str_make(line, cut), &arena, &got));
    }
    arena_free(&arena);
}
END_TEST

/* What no request waits for is somebody's all the same, and of a Run. */
START_TEST(fields_of_lines_without_a_request_are_found)
{
    struct arena arena;
    struct line_fields got;
    const char *line = "{\"kind\":\"NetworkLog\",\"cordium\":{\"userUID\":\"u-1\",\"userRef\":{"
                       "\"uid\":\"u-1\",\"name\":\"ann\"},\"runId\":\"r-1\"}}";
    arena_init(&arena, 1 << 20);
    ck_assert(line_fields_read(str_from(line), &arena, &got));
    ck_assert(str_is(got.text[LINE_USER], "ann"));
    ck_assert(str_is(got.text[LINE_USER_UID], "u-1"));
    ck_assert(str_is(got.text[LINE_RUN_ID], "r-1"));
    arena_free(&arena);
}
END_TEST

START_TEST(the_hash_is_siphash)
{
    /* The test vectors of the paper's reference implementation: key 00 to 0f, texts 00, 01, … */
    uint8_t key[SIPHASH_KEY_BYTES];
    char text[15];
    for (unsigned i = 0; i < sizeof key; i++) {
        key[i] = (uint8_t)i;
    }
    for (unsigned i = 0; i < sizeof text; i++) {
        text[i] = (char)i;
    }
    ck_assert_uint_eq(siphash(key, STR_NONE), 0x726fdb47dd0e0e31);
    ck_assert_uint_eq(siphash(key, str_make(text, 8)), 0x93f5f5799a932462);
    ck_assert_uint_eq(siphash(key, str_make(text, 15)), 0xa129ca6149be45e5);
}
END_TEST

/* ---- what is not in it yet ---- */

static void expect_scan(struct line_index *fake, struct index_range range, unsigned chunks,
                        bool is_complete, uint64_t cut)
{
    const struct index_filter any = {0};
    struct index_scan *scan;
    struct error err;
    uint64_t position = 0;
    unsigned count = 0;
    ck_assert_int_eq(index_scan_new(fake, &any, &range, &scan, &err), 0);
    while (index_scan_next(scan, &err) == 1) {
        count++;
    }
    ck_assert_uint_eq(count, chunks);
    ck_assert_int_eq(index_scan_is_complete(scan, &position), is_complete);
    if (!is_complete) {
        ck_assert_uint_eq(position, cut);
    }
    index_scan_free(scan);
}

START_TEST(a_scan_ends_where_the_index_has_a_gap)
{
    struct line_index fake = {.is_ready = true};
    const struct index_chunk chunks[] = {
        {.id = 1, .file = 1, .first_sequence = 1, .last_sequence = 100, .rows = 100},
        {.id = 2, .file = 201, .first_sequence = 201, .last_sequence = 300, .rows = 100},
    };
    const uint64_t gap = 101;
    (void)pthread_mutex_init(&fake.lock, NULL);
    buf_init(&fake.chunks, 1 << 20);
    buf_init(&fake.gaps, 1 << 20);
    buf_add(&fake.chunks, chunks, sizeof chunks);
    expect_scan(&fake, (struct index_range){.is_newest_first = true}, 2, true, 0);
    expect_scan(&fake, (struct index_range){0}, 2, true, 0);
    buf_add(&fake.gaps, &gap, sizeof gap);
    /* Lines 101 to 200 are in a file that it does not have. */
    expect_scan(&fake, (struct index_range){.is_newest_first = true}, 1, false, 201);
    expect_scan(&fake, (struct index_range){0}, 1, false, 100);
    expect_scan(&fake, (struct index_range){.after = 150}, 0, false, 150);
    expect_scan(&fake, (struct index_range){.before = 150, .is_newest_first = true}, 0, false, 150);
    expect_scan(&fake, (struct index_range){.before = 101, .is_newest_first = true}, 1, true, 0);
    expect_scan(&fake, (struct index_range){.before = 101}, 1, true, 0);
    expect_scan(&fake, (struct index_range){.after = 200}, 1, true, 0);
    expect_scan(&fake, (struct index_range){.after = 200, .is_newest_first = true}, 1, true, 0);
    expect_scan(&fake, (struct index_range){.after = 199, .is_newest_first = true}, 1, false, 201);
    buf_free(&fake.chunks);
    buf_free(&fake.gaps);
    (void)pthread_mutex_destroy(&fake.lock);
}
END_TEST

START_TEST(an_answer_is_without_the_damaged_files_that_it_would_look_at)
{
    struct index_chunk chunks[] = {
        {.file = 1, .last_sequence = 100, .time_min = 1000, .time_max = 2000},
        {.file = 301, .last_sequence = 400, .time_min = 5000, .time_max = 6000},
    };
    struct index_unread unread[] = {{.file = 101}, {.file = 201}, {.file = 401}};
    struct index_snapshot s = {
        .chunks = chunks, .chunk_count = 2, .unread = unread, .unread_count = 3};
    const struct index_filter early = {.has_time = true, .time_from = 0, .time_to = 2000};
    const struct index_filter middle = {.has_time = true, .time_from = 3000, .time_to = 3001};
    const struct index_filter late = {.has_time = true, .time_from = 5001, .time_to = 9000};
    const struct index_range newer = {.after = 200};
    const struct index_range older = {.before = 201};
    index_unread_place(&s);
    ck_assert_uint_eq(unread[0].last_sequence, 200);
    ck_assert_uint_eq(unread[1].last_sequence, 300);
    ck_assert_uint_eq(unread[2].last_sequence, UINT64_MAX);
    ck_assert(index_unread_may_match(&unread[0], NULL, NULL));
    ck_assert(!index_unread_may_match(&unread[0], NULL, &newer));
    ck_assert(index_unread_may_match(&unread[1], NULL, &newer));
    ck_assert(index_unread_may_match(&unread[0], NULL, &older));
    ck_assert(!index_unread_may_match(&unread[1], NULL, &older));
    ck_assert(!index_unread_may_match(&unread[0], &early, NULL));
    ck_assert(index_unread_may_match(&unread[0], &middle, NULL));
    ck_assert(!index_unread_may_match(&unread[0], &late, NULL));
    ck_assert(index_unread_may_match(&unread[2], &late, NULL));
    ck_assert(!index_unread_may_match(&unread[2], &middle, NULL));
}
END_TEST

/* ---- a log ---- */

static const char *const names[] = {"ann", "bob", "cid", "dee"};
static const char *const decisions[] = {"ALLOWED", "DENIED"};

static unsigned pick(unsigned n)
{
    f.random = f.random * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(f.random >> 33) % n;
}

static void append_random(unsigned count)
{
    char json[1024];
    for (unsigned i = 0; i < count; i++) {
        unsigned user = pick(4);
        (void)snprintf(
            json, sizeof json,
            "{\"kind\":\"AccessLog\",\"metadata\":{\"id\":\"%08x\",\"createdAt\":\"2026-11-%02uT10:"
            "%02u:00Z\"},\"entry\":{\"common\":{\"status\":\"%s\",\"userRef\":{\"uid\":\"u-%s\","
            "\"name\":\"%s\"}},\"info\":{\"grpc\":{\"method\":\"M%u\",\"path\":\"/p.S/M%u\"}}},"
            "\"cordium\":{\"event\":\"DECISION\",\"requestID\":\"r%u\",\"inWorkspace\":%s,"
            "\"filler\":"
            "\"%0200u\"}}",
            pick(1U << 30), 1 + pick(28), pick(60), decisions[pick(5) == 0], names[user],
            names[user], pick(6), pick(6), pick(1000), pick(9) ? "false" : "true", i);
        ck_assert_int_eq(audit_append(&f, json), 0);
        if (i % 512 == 511) {
            (void)uv_run(&f.loop, UV_RUN_NOWAIT);
        }
    }
    while (audit_log_lag(f.log).lines > 0) {
        (void)uv_run(&f.loop, UV_RUN_ONCE);
    }
}

static void open_index(void)
{
    const struct line_index_options options = {.dir = f.dir};
    ck_assert_int_eq(line_index_open(&options, &ix, &f.err), 0);
}

static void close_index(void)
{
    line_index_close(ix);
    ix = NULL;
}

static void await_all(void)
{
    line_index_wake(ix);
    ck_assert(line_index_await(ix, audit_log_sequence(f.log), WAIT_MS));
    ck_assert(line_index_await_built(ix, WAIT_MS));
}

/* ---- questions ---- */

struct question {
    struct index_filter filter;
    uint64_t values[4][2];
    struct index_filter except;
    uint64_t except_value;
    struct index_range range;
};

static void add_term(struct index_filter *filter, int column, uint64_t *values, size_t n)
{
    struct index_clause *c = &filter->clauses[filter->clause_count++];
    *c = (struct index_clause){.column_count = 1, .values = values, .value_count = n};
    c->columns[0] = (enum index_column)column;
}

static void ask_at_random(struct question *q, uint64_t last)
{
    char text[16];
    *q = (struct question){.range.is_newest_first = pick(2) == 0};
    if (pick(2) == 0) {
        q->values[0][0] = line_index_hash(ix, str_from(names[pick(4)]));
        q->values[0][1] = line_index_hash(ix, str_from(names[pick(4)]));
        add_term(&q->filter, LINE_USER, q->values[0], 1 + pick(2));
    }
    if (pick(2) == 0) {
        q->values[1][0] = line_index_hash(ix, str_from(decisions[pick(2)]));
        add_term(&q->filter, LINE_DECISION, q->values[1], 1);
    }
    if (pick(3) == 0) {
        (void)snprintf(text, sizeof text, "S/M%u", pick(6));
        q->values[2][0] = line_index_hash(ix, str_from(text));
        add_term(&q->filter, INDEX_PATH_TAIL, q->values[2], 1);
    }
    if (pick(3) == 0) {
        q->values[3][0] = pick(2);
        add_term(&q->filter, INDEX_IN_WORKSPACE, q->values[3], 1);
    }
    if (pick(4) == 0) {
        q->except_value = line_index_hash(ix, str_from(names[pick(4)]));
        add_term(&q->except, LINE_USER, &q->except_value, 1);
        q->filter.except = &q->except;
        q->filter.except_count = 1;
    }
    if (pick(3) == 0) {
        q->filter.has_time = true;
        q->filter.time_from = 1793500000000000000 + (int64_t)pick(20) * 86400000000000;
        q->filter.time_to = q->filter.time_from + (int64_t)pick(9) * 86400000000000;
    }
    if (pick(4) == 0) {
        q->filter.text = STR("\"requestID\":\"r77");
    }
    q->range.after = pick(2) ? pick((unsigned)last) : 0;
    q->range.before = pick(2) ? q->range.after + 1 + pick((unsigned)last) : 0;
}

static size_t find(const struct question *q, uint64_t *ret)
{
    struct log_query *query;
    struct log_match match;
    uint64_t position;
    size_t n = 0;
    ck_assert_msg(log_query_new(ix, &q->filter, &q->range, UINT64_MAX, &query, &f.err) == 0, "%s",
                  f.err.text);
    int rc;
    while ((rc = log_query_next(query, &match, &f.err)) == 1) {
        ret[n++] = match.sequence;
    }
    ck_assert_msg(rc == 0, "%s", f.err.text);
    ck_assert_int_eq(log_query_end(query, &position), LOG_QUERY_COMPLETE);
    log_query_free(query);
    return n;
}

/* The same by reading every line. */
static size_t find_slowly(const struct question *q, uint64_t *ret)
{
    struct log_reader *reader;
    struct log_line one;
    struct line line;
    struct line_fields fields;
    struct arena arena;
    uint64_t values[INDEX_COLUMN_COUNT] = {0};
    size_t n = 0;
    AUTO_FD int dir_fd = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    arena_init(&arena, 1 << 20);
    ck_assert_int_eq(log_reader_open(dir_fd, 0, &reader, &f.err), 0);
    while (log_reader_next(reader, &one, &f.err) == 1) {
        if (!line_read_head(one.text, &line) || line.sequence <= q->range.after ||
            (q->range.before && line.sequence >= q->range.before)) {
            continue;
        }
        arena_reset(&arena);
        (void)line_fields_read(one.text, &arena, &fields);
        line_index_hash_fields(ix, &fields, values);
        if (index_filter_accepts(&q->filter, values, one.text)) {
            ret[n++] = line.sequence;
        }
    }
    log_reader_close(reader);
    arena_free(&arena);
    for (size_t i = 0; q->range.is_newest_first && i < n / 2; i++) {
        uint64_t swap = ret[i];
        ret[i] = ret[n - 1 - i];
        ret[n - 1 - i] = swap;
    }
    return n;
}

static void compare_at_random(unsigned count)
{
    static uint64_t got[LINES_MAX];
    static uint64_t expected[LINES_MAX];
    uint64_t last = audit_log_sequence(f.log);
    for (unsigned i = 0; i < count; i++) {
        struct question q;
        ask_at_random(&q, last);
        size_t n = find(&q, got);
        size_t m = find_slowly(&q, expected);
        ck_assert_msg(n == m, "question %u: %zu lines, expected %zu", i, n, m);
        ck_assert_mem_eq(got, expected, n * sizeof *got);
    }
}

static void begin(void)
{
    audit_begin_in_memory(&f);
    audit_open(&f);
}

static void end(void)
{
    close_index();
    audit_end(&f);
}

START_TEST(what_is_found_is_what_all_lines_tell)
{
    open_index();
    append_random(300);
    await_all();
    compare_at_random(30);
    /* Over several chunks and files, some of them compressed. */
    audit_log_rotate(f.log);
    append_random(9000);
    audit_log_rotate(f.log);
    append_random(200);
    audit_run(&f);
    await_all();
    compare_at_random(30);
}
END_TEST

START_TEST(a_file_that_is_indexed_is_not_read_again)
{
    struct line_index_state state;
    open_index();
    append_random(500);
    audit_log_rotate(f.log);
    append_random(9000);
    audit_run(&f);
    await_all();
    close_index();
    append_random(10);
    open_index();
    await_all();
    line_index_state(ix, &state);
    ck_assert_uint_eq(state.indexed_sequence, audit_log_sequence(f.log));
    compare_at_random(15);
}
END_TEST

START_TEST(an_index_that_is_missing_or_damaged_is_made_anew)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/index.db", f.dir);
    append_random(400);
    audit_log_rotate(f.log);
    append_random(400);
    audit_run(&f);
    for (int round = 0; round < 4; round++) {
        open_index();
        await_all();
        compare_at_random(5);
        close_index();
        if (round == 0) {
            ck_assert_int_eq(unlink(path), 0);
        } else if (round == 1) {
            audit_write_file(&f, "index.db", STR("this is no database, and it is long enough"));
        } else {
            struct str content = audit_read_file(&f, "index.db");
            audit_write_file(&f, "index.db", str_make(content.ptr, content.len / 2));
        }
    }
    open_index();
    await_all();
    compare_at_random(5);
}
END_TEST

/* Waits until so many files cannot be read. */
static void await_unread(size_t count, struct index_snapshot *ret)
{
    for (int i = 0; i < WAIT_MS / 10; i++) {
        line_index_wake(ix);
        ck_assert(line_index_await_built(ix, WAIT_MS));
        ck_assert_int_eq(line_index_snapshot(ix, ret, &f.err), 0);
        if (ret->unread_count == count && ret->gap_count == 0) {
            return;
        }
        index_snapshot_free(ret);
        (void)usleep(10000);
    }
    ck_abort_msg("%zu files cannot be read", count);
}

START_TEST(a_damaged_file_is_told_until_it_is_put_back)
{
    struct index_snapshot snapshot;
    struct segment *files;
    struct line_index_state state;
    for (int i = 0; i < 3; i++) {
        append_random(400);
        audit_log_rotate(f.log);
    }
    append_random(50);
    audit_run(&f);
    ck_assert_uint_eq(audit_list(&f, &files), 4);
    ck_assert(files[1].is_compressed);
    struct str good = audit_read_file(&f, files[1].name);
    char *bad = arena_strndup(&f.arena, good.ptr, good.len);
    bad[good.len / 2] ^= 1;
    audit_write_file(&f, files[1].name, str_make(bad, good.len));
    open_index();
    await_unread(1, &snapshot);
    const struct index_unread *u = &snapshot.unread[0];
    ck_assert_str_eq(u->name, files[1].name);
    ck_assert_uint_eq(u->file, files[1].first_sequence);
    ck_assert_uint_eq(u->last_sequence, files[2].first_sequence - 1);
    ck_assert(u->text[0]);
    index_snapshot_free(&snapshot);
    line_index_state(ix, &state);
    ck_assert_uint_eq(state.unread_files, 1);
    audit_write_file(&f, files[1].name, good);
    await_unread(0, &snapshot);
    index_snapshot_free(&snapshot);
    await_all();
    compare_at_random(5);
}
END_TEST

START_TEST(an_index_with_a_chunk_that_cannot_be_is_made_anew)
{
    static const char *const changes[] = {
        "UPDATE chunk SET rows = 4000000000",
        "UPDATE chunk SET rows = 8193",
        "UPDATE chunk SET rows = 0",
        "UPDATE chunk SET id = 9223372036854775807 WHERE id = (SELECT min(id) FROM chunk)",
        "UPDATE chunk SET id = -1 WHERE id = (SELECT min(id) FROM chunk)",
    };
    char path[160];
    (void)snprintf(path, sizeof path, "%s/index.db", f.dir);
    append_random(400);
    audit_log_rotate(f.log);
    append_random(400);
    audit_run(&f);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct sql *sql;
        open_index();
        await_all();
        close_index();
        ck_assert_int_eq(sql_open(path, 0x43524149, &sql, &f.err), 0);
        ck_assert_int_eq(sql_run(sql, changes[i], &f.err), 0);
        sql_close(sql);
        open_index();
        await_all();
        compare_at_random(5);
        close_index();
    }
}
END_TEST

START_TEST(a_cell_that_is_damaged_while_it_is_open_leads_to_a_new_index)
{
    append_random(9000);
    open_index();
    await_all();
    close_index();
    /* Pages in the middle of the file hold the columns. */
    struct str content = audit_read_file(&f, "index.db");
    char *copy = arena_strndup(&f.arena, content.ptr, content.len);
    memset(copy + content.len / 3, 0xff, content.len / 3);
    audit_write_file(&f, "index.db", str_make(copy, content.len));
    open_index();
    static uint64_t got[LINES_MAX];
    struct question all = {.filter = {.has_time = true, .time_from = 1, .time_to = INT64_MAX - 1}};
    struct log_query *query = NULL;
    struct log_match match;
    size_t n = 0;
    for (int i = 0; i < 200 && n != audit_log_sequence(f.log); i++) {
        n = 0;
        int rc = line_index_await(ix, audit_log_sequence(f.log), WAIT_MS) &&
                         line_index_await_built(ix, WAIT_MS)
                     ? log_query_new(ix, &all.filter, &all.range, UINT64_MAX, &query, &f.err)
                     : -1;
        while (rc >= 0 && (rc = log_query_next(query, &match, &f.err)) == 1) {
            got[n++] = match.sequence;
        }
        log_query_free(query);
        query = NULL;
        (void)usleep(100000);
    }
    ck_assert_uint_eq(n, audit_log_sequence(f.log));
    ck_assert_uint_eq(got[0], 1);
}
END_TEST

START_TEST(erased_lines_are_not_found_any_more)
{
    struct segment *list;
    struct buf found;
    static uint64_t got[LINES_MAX];
    append_random(300);
    audit_log_rotate(f.log);
    append_random(20);
    audit_run(&f);
    open_index();
    await_all();
    struct question q = {0};
    q.values[0][0] = line_index_hash(ix, STR("bob"));
    add_term(&q.filter, LINE_USER, q.values[0], 1);
    ck_assert_uint_gt(find(&q, got), 0);
    close_index();
    struct erase_subject subject = {{"u-bob"}, 1};
    AUTO_FD int dir_fd = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_uint_eq(audit_list(&f, &list), 2);
    buf_init(&found, 1 << 20);
    /* The subject of these lines is told by entry.common.userRef. */
    ck_assert_int_eq(erase_find_lines(dir_fd, &list[0], &subject, &found, &f.err), 0);
    ck_assert_uint_gt(found.len, 0);
    ck_assert_int_eq(erase_rewrite(dir_fd, &list[0], (const struct chain *)(const void *)found.ptr,
                                   found.len / sizeof(struct chain), &f.err),
                     0);
    buf_free(&found);
    open_index();
    await_all();
    q.values[0][0] = line_index_hash(ix, STR("bob"));
    size_t n = find(&q, got);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_gt(got[i], 300); /* in the active file, which was not touched */
    }
    compare_at_random(20);
}
END_TEST

START_TEST(lines_of_deleted_files_go)
{
    static uint64_t got[LINES_MAX];
    append_random(200);
    audit_log_rotate(f.log);
    append_random(200);
    audit_close(&f);
    f.options.retention_bytes = 1;
    open_index();
    ck_assert(line_index_await_built(ix, WAIT_MS));
    audit_open(&f);
    audit_log_rotate(f.log);
    append_random(10);
    audit_run(&f);
    ck_assert_uint_eq(audit_count_files(&f, ".jsonl"), 1);
    await_all();
    struct question all = {0};
    size_t n = find(&all, got);
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_gt(got[0], 200);
    ck_assert_uint_eq(n, find_slowly(&all, got));
}
END_TEST

START_TEST(torn_lines_are_passed_over)
{
    append_random(50);
    audit_close(&f);
    int fd = open(f.path, O_WRONLY | O_APPEND | O_CLOEXEC);
    ck_assert_int_eq(fd_write_all(fd, "{\"sequence\":99,\"pre", 19), 0);
    (void)close(fd);
    audit_open(&f);
    open_index();
    append_random(50);
    await_all();
    compare_at_random(20);
}
END_TEST

START_TEST(lines_are_found_while_they_are_written_rotated_and_compressed)
{
    static uint64_t got[LINES_MAX];
    struct question all = {0};
    open_index();
    for (int i = 0; i < 40; i++) {
        append_random(60);
        if (i % 5 == 4) {
            audit_log_rotate(f.log);
        }
        line_index_wake(ix);
        ck_assert(line_index_await(ix, audit_log_sequence(f.log), WAIT_MS));
        ck_assert_uint_eq(find(&all, got), audit_log_sequence(f.log));
    }
}
END_TEST

static bool never(void *arg)
{
    (void)arg;
    return false;
}

START_TEST(statistics_add_up)
{
    static uint64_t got[LINES_MAX];
    struct index_scan *scan;
    struct index_table tables[2] = {{0}};
    struct index_count all;
    struct question q = {0};
    const struct index_key keys[] = {{.column = (enum index_column)LINE_USER},
                                     {.column = INDEX_TIME, .span_ns = 86400000000000}};
    append_random(10000);
    open_index();
    await_all();
    const struct index_stats_hashes hashes = {line_index_hash(ix, STR("DECISION")),
                                              line_index_hash(ix, STR("ALLOWED")),
                                              line_index_hash(ix, STR("DENIED"))};
    ck_assert_int_eq(index_scan_new(ix, &q.filter, &q.range, &scan, &f.err), 0);
    ck_assert_int_eq(index_stats_run(scan, &hashes, keys, 2, never, NULL, tables, &all, &f.err), 0);
    index_scan_free(scan);
    ck_assert_uint_eq(all.lines, audit_log_sequence(f.log));
    uint64_t sum = 0;
    for (size_t i = 0; i < tables[0].count; i++) {
        const struct index_group *g = &tables[0].groups[i];
        q = (struct question){0};
        q.values[0][0] = g->key;
        add_term(&q.filter, LINE_USER, q.values[0], 1);
        ck_assert_uint_eq(find(&q, got), g->count.lines);
        q.values[1][0] = hashes.denied;
        add_term(&q.filter, LINE_DECISION, q.values[1], 1);
        ck_assert_uint_eq(find(&q, got), g->count.denied);
        sum += g->count.lines;
    }
    ck_assert_uint_eq(sum, all.lines);
    ck_assert_uint_ge(tables[1].count, 28);
    index_table_free(&tables[0]);
    index_table_free(&tables[1]);
}
END_TEST

Suite *suite_audit_index(void)
{
    Suite *s = suite_create("audit_index");
    TCase *parts = tcase_create("parts");
    tcase_add_test(parts, columns_are_packed_and_read_back);
    tcase_add_test(parts, codes_beyond_the_codebook_are_refused);
    tcase_add_test(parts, fields_are_found_without_a_tree);
    tcase_add_test(parts, fields_of_lines_without_a_request_are_found);
    tcase_add_test(parts, the_hash_is_siphash);
    tcase_add_test(parts, a_scan_ends_where_the_index_has_a_gap);
    tcase_add_test(parts, an_answer_is_without_the_damaged_files_that_it_would_look_at);
    suite_add_tcase(s, parts);
    TCase *log = tcase_create("log");
    tcase_set_timeout(log, 120);
    tcase_add_checked_fixture(log, begin, end);
    tcase_add_test(log, what_is_found_is_what_all_lines_tell);
    tcase_add_test(log, a_file_that_is_indexed_is_not_read_again);
    tcase_add_test(log, an_index_that_is_missing_or_damaged_is_made_anew);
    tcase_add_test(log, a_damaged_file_is_told_until_it_is_put_back);
    tcase_add_test(log, an_index_with_a_chunk_that_cannot_be_is_made_anew);
    tcase_add_test(log, a_cell_that_is_damaged_while_it_is_open_leads_to_a_new_index);
    tcase_add_test(log, erased_lines_are_not_found_any_more);
    tcase_add_test(log, lines_of_deleted_files_go);
    tcase_add_test(log, torn_lines_are_passed_over);
    tcase_add_test(log, lines_are_found_while_they_are_written_rotated_and_compressed);
    tcase_add_test(log, statistics_add_up);
    suite_add_tcase(s, log);
    return s;
}
