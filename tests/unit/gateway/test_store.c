#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/cordium.pb-c.h"
#include "api/core.pb-c.h"
#include "gateway/rpc/codec.h"
#include "gateway/state/resource.h"
#include "gateway/state/store.h"

Suite *suite_store(void);

enum { NOW_SECONDS = 1790000000 };
static const int64_t now_ns = (int64_t)NOW_SECONDS * 1000000000;

struct fixture {
    char folder[64];
    char path[96];
    struct arena arena;
    struct store *store;
    struct error err;
};

static void fixture_init(struct fixture *f)
{
    *f = (struct fixture){.folder = "/tmp/cordium-store-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(f->folder));
    (void)snprintf(f->path, sizeof(f->path), "%s/store.db", f->folder);
    arena_init(&f->arena, 64 << 20);
    ck_assert_int_eq(store_open(f->path, &f->store, &f->err), 0);
}

static void fixture_free(struct fixture *f)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    store_close(f->store);
    for (size_t i = 0; i < 4; i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s%s", f->path, suffixes[i]);
        (void)unlink(path);
    }
    ck_assert_int_eq(rmdir(f->folder), 0);
    arena_free(&f->arena);
}

static Cordium__Workspace *make_workspace(struct fixture *f, const char *name)
{
    Cordium__Workspace *w = CODEC_NEW(&f->arena, Cordium__Workspace, cordium__workspace);
    w->spec = CODEC_NEW(&f->arena, Cordium__Workspace__Spec, cordium__workspace__spec);
    ck_assert_int_eq(
        resource_stamp_new(&w->base, STORE_WORKSPACE, name, now_ns, &f->arena, &f->err), 0);
    return w;
}

static int insert(struct fixture *f, const char *name, const char *space, const char *owner,
                  int state, bool is_hidden)
{
    Cordium__Workspace *w = make_workspace(f, name);
    struct store_index index = {
        .space_uid = space, .owner_uid = owner, .state = state, .is_hidden = is_hidden};
    return store_insert(f->store, STORE_WORKSPACE, &w->base, &index, &f->err);
}

START_TEST(resource_survives_a_new_process_and_keeps_its_fields)
{
    struct fixture f;
    fixture_init(&f);
    Cordium__Workspace *w = make_workspace(&f, "abc");
    w->spec->is_ephemeral = 1;
    struct store_index index = {0};
    ck_assert_int_eq(store_insert(f.store, STORE_WORKSPACE, &w->base, &index, &f.err), 0);
    struct stat st;
    ck_assert_int_eq(stat(f.path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    store_close(f.store);
    ck_assert_int_eq(store_open(f.path, &f.store, &f.err), 0);
    ProtobufCMessage *m = NULL;
    ck_assert_int_eq(store_get_by_name(f.store, STORE_WORKSPACE, "abc", &f.arena, &m, &f.err), 0);
    ck_assert(codec_equal(m, &w->base));
    ck_assert_int_eq(
        store_get_by_uid(f.store, STORE_WORKSPACE, w->metadata->uid, &f.arena, &m, &f.err), 0);
    ck_assert_int_eq(store_get_by_name(f.store, STORE_SPACE, "abc", &f.arena, &m, &f.err),
                     -STATUS_NOT_FOUND);
    ck_assert_str_eq(f.err.text, "cordium.v1.Space abc does not exist");
    fixture_free(&f);
}
END_TEST

START_TEST(names_are_taken_once_per_kind)
{
    struct fixture f;
    fixture_init(&f);
    ck_assert_int_eq(insert(&f, "abc", "", "", 0, false), 0);
    ck_assert_int_eq(insert(&f, "abc", "", "", 0, false), -STATUS_ALREADY_EXISTS);
    ck_assert_str_eq(f.err.text, "cordium.v1.Workspace abc already exists");
    Cordium__Space *s = CODEC_NEW(&f.arena, Cordium__Space, cordium__space);
    ck_assert_int_eq(resource_stamp_new(&s->base, STORE_SPACE, "abc", now_ns, &f.arena, &f.err), 0);
    struct store_index index = {0};
    ck_assert_int_eq(store_insert(f.store, STORE_SPACE, &s->base, &index, &f.err), 0);
    /* A message of another kind, or without metadata, is a mistake of the program. */
    ck_assert_int_eq(store_insert(f.store, STORE_WORKSPACE, &s->base, &index, &f.err),
                     -STATUS_INTERNAL);
    fixture_free(&f);
}
END_TEST

START_TEST(update_checks_the_version_that_was_read)
{
    struct fixture f;
    fixture_init(&f);
    Cordium__Workspace *w = make_workspace(&f, "abc");
    struct store_index index = {0};
    ck_assert_int_eq(store_insert(f.store, STORE_WORKSPACE, &w->base, &index, &f.err), 0);
    const char *first = w->metadata->resource_version;
    ck_assert_int_eq(resource_stamp_update(&w->base, now_ns + 1, &f.arena, &f.err), 0);
    ck_assert_str_eq(w->metadata->last_resource_version, first);
    ck_assert_str_ne(w->metadata->resource_version, first);
    ck_assert_int_eq(store_update(f.store, STORE_WORKSPACE, &w->base, &index, first, &f.err), 0);
    ck_assert_int_eq(resource_stamp_update(&w->base, now_ns + 2, &f.arena, &f.err), 0);
    ck_assert_int_eq(store_update(f.store, STORE_WORKSPACE, &w->base, &index, first, &f.err),
                     -STATUS_OUT_OF_RANGE);
    ck_assert_ptr_nonnull(strstr(f.err.text, "has already changed"));
    ck_assert_int_eq(store_update(f.store, STORE_WORKSPACE, &w->base, &index, NULL, &f.err), 0);
    ck_assert_int_eq(store_delete(f.store, STORE_WORKSPACE, w->metadata->uid, &f.err), 0);
    ck_assert_int_eq(store_delete(f.store, STORE_WORKSPACE, w->metadata->uid, &f.err),
                     -STATUS_NOT_FOUND);
    ck_assert_int_eq(store_update(f.store, STORE_WORKSPACE, &w->base, &index, NULL, &f.err),
                     -STATUS_NOT_FOUND);
    fixture_free(&f);
}
END_TEST

START_TEST(lists_filter_page_and_order)
{
    struct fixture f;
    fixture_init(&f);
    for (int i = 0; i < 25; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "w%02d", 24 - i);
        ck_assert_int_eq(insert(&f, name, i % 2 ? "odd" : "even", "alice", i % 12, i == 3), 0);
    }
    struct store_list list;
    struct store_filter all = {0};
    struct store_page page = {.page = 1, .items_per_page = 10};
    ck_assert_int_eq(store_list(f.store, STORE_WORKSPACE, &all, &page, &f.arena, &list, &f.err), 0);
    ck_assert_uint_eq(list.count, 10);
    ck_assert_uint_eq(list.total_count, 24); /* one is hidden */
    ck_assert(list.has_more);
    ck_assert_str_eq(resource_name(list.items[0]), "w13");
    page = (struct store_page){.order = STORE_BY_NAME, .is_descending = true};
    ck_assert_int_eq(store_list(f.store, STORE_WORKSPACE, &all, &page, &f.arena, &list, &f.err), 0);
    ck_assert_uint_eq(list.count, 24);
    ck_assert(!list.has_more);
    ck_assert_uint_eq(list.items_per_page, STORE_PAGE_ITEMS_DEFAULT);
    ck_assert_str_eq(resource_name(list.items[0]), "w24");
    page = (struct store_page){.page = 3, .items_per_page = 10};
    ck_assert_int_eq(store_list(f.store, STORE_WORKSPACE, &all, &page, &f.arena, &list, &f.err),
                     -STATUS_NOT_FOUND);
    page.page = STORE_PAGE_MAX + 1;
    ck_assert_int_eq(store_list(f.store, STORE_WORKSPACE, &all, &page, &f.arena, &list, &f.err),
                     -STATUS_INVALID_ARGUMENT);

    uint32_t count = 0;
    struct store_filter some = {.space_uid = "odd",
                                .owner_uid = "alice",
                                .states = 1u << 1 | 1u << 3,
                                .hidden = STORE_HIDDEN_AND_VISIBLE};
    ck_assert_int_eq(store_count(f.store, STORE_WORKSPACE, &some, &count, &f.err), 0);
    ck_assert_uint_eq(count, 4);
    some.hidden = STORE_HIDDEN_ONLY;
    ck_assert_int_eq(store_list_all(f.store, STORE_WORKSPACE, &some, &f.arena, &list, &f.err), 0);
    ck_assert_uint_eq(list.count, 1);
    some = (struct store_filter){.space_uid = "even"};
    ck_assert_int_eq(store_delete_all(f.store, STORE_WORKSPACE, &some, &count, &f.err), 0);
    ck_assert_uint_eq(count, 13);
    some.owner_uid = "bob";
    ck_assert_int_eq(store_count(f.store, STORE_WORKSPACE, &some, &count, &f.err), 0);
    ck_assert_uint_eq(count, 0);
    page = (struct store_page){0};
    ck_assert_int_eq(store_list(f.store, STORE_WORKSPACE, &some, &page, &f.arena, &list, &f.err),
                     0);
    ck_assert_uint_eq(list.count, 0);
    fixture_free(&f);
}
END_TEST

START_TEST(transactions_are_all_or_nothing)
{
    struct fixture f;
    fixture_init(&f);
    uint32_t count = 9;
    struct store_filter all = {0};
    ck_assert_int_eq(store_begin(f.store, &f.err), 0);
    ck_assert_int_eq(insert(&f, "abc", "", "", 0, false), 0);
    ck_assert_int_eq(store_begin(f.store, &f.err), -STATUS_INTERNAL);
    store_rollback(f.store);
    store_rollback(f.store);
    ck_assert_int_eq(store_count(f.store, STORE_WORKSPACE, &all, &count, &f.err), 0);
    ck_assert_uint_eq(count, 0);
    ck_assert_int_eq(store_begin(f.store, &f.err), 0);
    ck_assert_int_eq(insert(&f, "abc", "", "", 0, false), 0);
    ck_assert_int_eq(insert(&f, "abc", "", "", 0, false), -STATUS_ALREADY_EXISTS);
    ck_assert_int_eq(store_commit(f.store, &f.err), 0);
    ck_assert_int_eq(store_count(f.store, STORE_WORKSPACE, &all, &count, &f.err), 0);
    ck_assert_uint_eq(count, 1);
    fixture_free(&f);
}
END_TEST

START_TEST(a_transient_commit_does_not_wait_until_asked)
{
    struct fixture f;
    fixture_init(&f);
    uint64_t waits = store_write_time(f.store).count;
    ck_assert_int_eq(store_begin_transient(f.store, &f.err), 0);
    ck_assert_int_eq(store_begin_transient(f.store, &f.err), -STATUS_INTERNAL);
    ck_assert_int_eq(insert(&f, "abc", "s", "o", 1, false), 0);
    ck_assert_int_eq(store_commit(f.store, &f.err), 0);
    ck_assert_uint_eq(store_write_time(f.store).count, waits);
    ck_assert_int_eq(store_sync(f.store, &f.err), 0);
    ck_assert_uint_eq(store_write_time(f.store).count, waits + 1);
    ck_assert_int_eq(store_begin_transient(f.store, &f.err), 0);
    store_rollback(f.store);
    ck_assert_int_eq(insert(&f, "def", "s", "o", 1, false), 0);
    ck_assert_uint_eq(store_write_time(f.store).count, waits + 2);
    store_close(f.store);
    ck_assert_int_eq(store_open(f.path, &f.store, &f.err), 0);
    uint32_t count = 0;
    const struct store_filter all = {.owner_uid = "o"};
    ck_assert_int_eq(store_count(f.store, STORE_WORKSPACE, &all, &count, &f.err), 0);
    ck_assert_uint_eq(count, 2);
    fixture_free(&f);
}
END_TEST

START_TEST(tokens_rotate_and_expire)
{
    struct fixture f;
    fixture_init(&f);
    struct store_token t = {.kind = STORE_TOKEN_ACCESS, .subject_uid = "s1"};
    for (uint32_t i = 0; i < 4; i++) {
        t.hash[0] = (uint8_t)i;
        t.generation = i / 2;
        t.expires_at_seconds = i == 3 ? 0 : NOW_SECONDS + (int64_t)i;
        ck_assert_int_eq(store_token_insert(f.store, &t, &f.err), 0);
    }
    ck_assert_int_eq(store_token_insert(f.store, &t, &f.err), -STATUS_ALREADY_EXISTS);
    struct store_token got;
    ck_assert_int_eq(store_token_get(f.store, t.hash, &f.arena, &got, &f.err), 0);
    ck_assert_str_eq(got.subject_uid, "s1");
    ck_assert_uint_eq(got.generation, 1);
    ck_assert_int_eq(store_token_delete_subject(f.store, "s1", 1, &f.err), 0);
    t.hash[0] = 1;
    ck_assert_int_eq(store_token_get(f.store, t.hash, &f.arena, &got, &f.err), -STATUS_NOT_FOUND);
    ck_assert_int_eq(store_token_delete_expired(f.store, NOW_SECONDS + 2, &f.err), 0);
    t.hash[0] = 2;
    ck_assert_int_eq(store_token_delete(f.store, t.hash, &f.err), -STATUS_NOT_FOUND);
    t.hash[0] = 3;
    ck_assert_int_eq(store_token_delete_subject(f.store, "s1", UINT32_MAX, &f.err), 0);
    ck_assert_int_eq(store_token_get(f.store, t.hash, &f.arena, &got, &f.err), -STATUS_NOT_FOUND);
    fixture_free(&f);
}
END_TEST

START_TEST(images_and_settings_are_kept)
{
    struct fixture f;
    fixture_init(&f);
    struct store_image image = {"aa", "{\"v\":1}", 2};
    ck_assert_int_eq(store_image_put(f.store, &image, &f.err), 0);
    image = (struct store_image){"bb", "{}", 1};
    ck_assert_int_eq(store_image_put(f.store, &image, &f.err), 0);
    struct store_image *images;
    size_t count;
    ck_assert_int_eq(store_image_list(f.store, &f.arena, &images, &count, &f.err), 0);
    ck_assert_uint_eq(count, 2);
    ck_assert_str_eq(images[0].id, "bb");
    ck_assert_int_eq(store_image_get(f.store, "aa", &f.arena, &image, &f.err), 0);
    ck_assert_str_eq(image.json, "{\"v\":1}");
    ck_assert_int_eq(store_image_delete(f.store, "aa", &f.err), 0);
    ck_assert_int_eq(store_image_get(f.store, "aa", &f.arena, &image, &f.err), -STATUS_NOT_FOUND);
    const char *value;
    ck_assert_int_eq(store_setting_get(f.store, "k", &f.arena, &value, &f.err), -STATUS_NOT_FOUND);
    ck_assert_int_eq(store_setting_put(f.store, "k", "1", &f.err), 0);
    ck_assert_int_eq(store_setting_put(f.store, "k", "2", &f.err), 0);
    ck_assert_int_eq(store_setting_get(f.store, "k", &f.arena, &value, &f.err), 0);
    ck_assert_str_eq(value, "2");
    ck_assert_int_eq(store_setting_put(f.store, "k", NULL, &f.err), 0);
    ck_assert_int_eq(store_setting_get(f.store, "k", &f.arena, &value, &f.err), -STATUS_NOT_FOUND);
    fixture_free(&f);
}
END_TEST

START_TEST(files_that_are_not_ours_are_refused)
{
    struct fixture f;
    fixture_init(&f);
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/other", f.folder);
    FILE *o = fopen(path, "w");
    ck_assert_ptr_nonnull(o);
    fputs("this is not a database, but a text that is long enough to be taken for one if one "
          "does not look at its head; the head is what SQLite looks at.\n",
          o);
    fclose(o);
    struct store *other = NULL;
    ck_assert_int_eq(store_open(path, &other, &f.err), -STATUS_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(f.err.text, path));
    (void)unlink(path);
    (void)snprintf(path, sizeof(path), "%s/no/folder", f.folder);
    ck_assert_int_eq(store_open(path, &other, &f.err), -STATUS_FAILED_PRECONDITION);
    fixture_free(&f);
}
END_TEST

START_TEST(a_second_opener_is_told_who_is_in_the_way)
{
    struct fixture f;
    fixture_init(&f);
    struct store *second = NULL;
    ck_assert_int_eq(store_open(f.path, &second, &f.err), -STATUS_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(f.err.text, "in use by another process"));
    fixture_free(&f);
}
END_TEST

/* Inserts until it is killed, and tells each name after the store has taken it. */
static void insert_until_killed(struct fixture *f, int out)
{
    struct store *store = NULL;
    if (store_open(f->path, &store, &f->err) < 0) {
        _exit(1);
    }
    f->store = store;
    for (uint32_t i = 0;; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "w%u", i);
        if (insert(f, name, "", "", 0, false) < 0 || write(out, &i, sizeof(i)) != sizeof(i)) {
            _exit(1);
        }
    }
}

START_TEST(what_was_told_as_stored_survives_a_kill)
{
    struct fixture f;
    fixture_init(&f);
    store_close(f.store);
    f.store = NULL;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        insert_until_killed(&f, ends[1]);
    }
    close(ends[1]);
    uint32_t told = 0;
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(read(ends[0], &told, sizeof(told)), sizeof(told));
    }
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    while (read(ends[0], &told, sizeof(told)) == sizeof(told)) {
    }
    close(ends[0]);
    ck_assert_int_eq(store_open(f.path, &f.store, &f.err), 0);
    uint32_t count = 0;
    struct store_filter all = {0};
    ck_assert_int_eq(store_count(f.store, STORE_WORKSPACE, &all, &count, &f.err), 0);
    ck_assert_uint_ge(count, told + 1);
    ck_assert_uint_le(count, told + 2); /* the last one may not have been told */
    fixture_free(&f);
}
END_TEST

START_TEST(uuids_have_version_and_order)
{
    struct error err;
    char a[RESOURCE_UUID_BYTES];
    char b[RESOURCE_UUID_BYTES];
    ck_assert_int_eq(resource_uuid_v4(a, &err), 0);
    ck_assert_int_eq(resource_uuid_v4(b, &err), 0);
    ck_assert_str_ne(a, b);
    ck_assert(resource_uid_is_valid(str_from(a)));
    ck_assert_int_eq(resource_uuid_v7(now_ns, a, &err), 0);
    ck_assert_int_eq(resource_uuid_v7(now_ns + 1000000, b, &err), 0);
    ck_assert_int_lt(strcmp(a, b), 0);
    ck_assert_int_eq(a[14], '7');
    ck_assert(!resource_uid_is_valid(str_from(a)));
    ck_assert(!resource_uid_is_valid(STR("")));
    ck_assert(!resource_uid_is_valid(STR("00000000-0000-4000-8000-00000000000G")));
}
END_TEST

START_TEST(find_goes_by_uid_then_name)
{
    struct fixture f;
    fixture_init(&f);
    ProtobufCMessage *m;
    Cordium__Workspace *w = make_workspace(&f, "abc");
    struct store_index index = {0};
    ck_assert_int_eq(store_insert(f.store, STORE_WORKSPACE, &w->base, &index, &f.err), 0);
    ck_assert_int_eq(
        resource_find(f.store, STORE_WORKSPACE, w->metadata->uid, "zzz", &f.arena, &m, &f.err), 0);
    ck_assert_int_eq(resource_find(f.store, STORE_WORKSPACE, "", "abc", &f.arena, &m, &f.err), 0);
    ck_assert_int_eq(resource_find(f.store, STORE_WORKSPACE, "abc", "", &f.arena, &m, &f.err),
                     -STATUS_INVALID_ARGUMENT);
    ck_assert_int_eq(resource_find(f.store, STORE_WORKSPACE, NULL, "", &f.arena, &m, &f.err),
                     -STATUS_INVALID_ARGUMENT);
    Meta__ObjectReference *ref = resource_ref(m, &f.arena);
    ck_assert_str_eq(ref->name, "abc");
    ck_assert_str_eq(ref->kind, "Workspace");
    ck_assert_str_eq(ref->api_version, "cordium/v1");
    ck_assert(resource_ref_is_set(ref));
    ck_assert(!resource_ref_is_set(NULL));
    fixture_free(&f);
}
END_TEST

START_TEST(changes_are_counted_by_kind)
{
    struct fixture f;
    fixture_init(&f);
    struct store_index index = {.owner_uid = "alice"};
    Cordium__Workspace *w = make_workspace(&f, "abc");
    ck_assert_int_eq(store_insert(f.store, STORE_WORKSPACE, &w->base, &index, &f.err), 0);
    ck_assert_uint_eq(store_changes(f.store, STORE_WORKSPACE), 0);
    ck_assert_int_eq(store_update(f.store, STORE_WORKSPACE, &w->base, &index, NULL, &f.err), 0);
    ck_assert_uint_eq(store_changes(f.store, STORE_WORKSPACE), 1);
    ck_assert_int_eq(store_delete(f.store, STORE_WORKSPACE, w->metadata->uid, &f.err), 0);
    ck_assert_uint_eq(store_changes(f.store, STORE_WORKSPACE), 2);
    struct store_filter own = {.owner_uid = "alice"};
    ck_assert_int_eq(store_delete_all(f.store, STORE_WORKSPACE, &own, NULL, &f.err), 0);
    ck_assert_uint_eq(store_changes(f.store, STORE_WORKSPACE), 3);
    ck_assert_uint_eq(store_changes(f.store, STORE_SESSION), 0);
    fixture_free(&f);
}
END_TEST

Suite *suite_store(void)
{
    Suite *s = suite_create("store");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 30);
    tcase_add_test(t, resource_survives_a_new_process_and_keeps_its_fields);
    tcase_add_test(t, names_are_taken_once_per_kind);
    tcase_add_test(t, update_checks_the_version_that_was_read);
    tcase_add_test(t, lists_filter_page_and_order);
    tcase_add_test(t, transactions_are_all_or_nothing);
    tcase_add_test(t, a_transient_commit_does_not_wait_until_asked);
    tcase_add_test(t, tokens_rotate_and_expire);
    tcase_add_test(t, images_and_settings_are_kept);
    tcase_add_test(t, files_that_are_not_ours_are_refused);
    tcase_add_test(t, a_second_opener_is_told_who_is_in_the_way);
    tcase_add_test(t, what_was_told_as_stored_survives_a_kill);
    tcase_add_test(t, uuids_have_version_and_order);
    tcase_add_test(t, find_goes_by_uid_then_name);
    tcase_add_test(t, changes_are_counted_by_kind);
    suite_add_tcase(s, t);
    return s;
}
