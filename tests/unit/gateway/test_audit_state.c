/* What the gateway keeps of its audit log outside of the log: the key, the anchor, and from where
 * on requests may be without an end. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "executor/proc/fd.h"
#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_state.h"
#include "gateway/audit/audit_unended.h"
#include "gateway/gateway.h"
#include "tests/unit/gateway/actor_fixture.h"

Suite *suite_audit_state(void);

struct state_fixture {
    struct actor_fixture actor;
    uv_loop_t loop;
    char dir[96], key[96], public_key[96];
};

static void state_begin(struct state_fixture *f)
{
    *f = (struct state_fixture){0};
    fixture_open(&f->actor);
    (void)snprintf(f->dir, sizeof f->dir, "%s/audit", f->actor.folder);
    (void)snprintf(f->key, sizeof f->key, "%s/audit.key", f->actor.folder);
    (void)snprintf(f->public_key, sizeof f->public_key, "%s/audit.pub", f->actor.folder);
    f->actor.config.state_dir = f->actor.folder;
    f->actor.config.audit_dir = f->dir;
    f->actor.config.audit_rotate_mebibytes = 64;
    f->actor.config.audit_checkpoint_lines = 1000;
    f->actor.config.audit_checkpoint_seconds = 60;
    ck_assert_int_eq(uv_loop_init(&f->loop), 0);
}

static void state_end(struct state_fixture *f)
{
    AUTO_FD int dir_fd = open(f->actor.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(uv_loop_close(&f->loop), 0);
    (void)fd_remove_tree(dir_fd, "audit");
    (void)unlink(f->key);
    (void)unlink(f->public_key);
    fixture_close(&f->actor);
}

static int state_open(struct state_fixture *f)
{
    return audit_state_open_log(&f->actor.gateway, &f->loop, &f->actor.err);
}

/* One line, and the checkpoint of the close. */
static void write_and_close(struct state_fixture *f)
{
    struct buf record;
    buf_init(&record, 64);
    buf_add_cstr(&record, "{}");
    ck_assert_int_eq(audit_log_append(f->actor.gateway.audit, &record, NULL, NULL), 0);
    buf_free(&record);
    audit_log_close(f->actor.gateway.audit);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    f->actor.gateway.audit = NULL;
}

static struct audit_anchor anchor_of(struct state_fixture *f)
{
    struct audit_anchor anchor;
    ck_assert_msg(audit_anchor_read(f->actor.gateway.store, &anchor, &f->actor.err) == 0, "%s",
                  f->actor.err.text);
    return anchor;
}

START_TEST(the_first_start_makes_a_key_and_each_checkpoint_is_noted)
{
    struct state_fixture f;
    struct stat st;
    state_begin(&f);
    ck_assert(!anchor_of(&f).is_set);
    ck_assert_msg(state_open(&f) == 0, "%s", f.actor.err.text);
    ck_assert_int_eq(stat(f.key, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    ck_assert_int_eq(access(f.public_key, R_OK), 0);
    write_and_close(&f);
    ck_assert(anchor_of(&f).is_set);
    ck_assert_uint_eq(anchor_of(&f).chain.sequence, 2);
    ck_assert_int_eq(state_open(&f), 0);
    write_and_close(&f);
    ck_assert_uint_eq(anchor_of(&f).chain.sequence, 4);
    state_end(&f);
}
END_TEST

START_TEST(a_lost_log_is_refused_until_the_loss_is_accepted_and_then_noted_anew)
{
    struct state_fixture f;
    state_begin(&f);
    ck_assert_int_eq(audit_anchor_accept_loss(f.actor.gateway.store, &f.actor.err),
                     -STATUS_NOT_FOUND);
    ck_assert_int_eq(state_open(&f), 0);
    write_and_close(&f);
    AUTO_FD int dir_fd = open(f.actor.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(fd_remove_tree(dir_fd, "audit"), 0);
    ck_assert_int_eq(state_open(&f), -STATUS_DATA_LOSS);
    ck_assert_int_eq(audit_anchor_accept_loss(f.actor.gateway.store, &f.actor.err), 0);
    /* Said twice is as good as once. */
    ck_assert_int_eq(audit_anchor_accept_loss(f.actor.gateway.store, &f.actor.err), 0);
    ck_assert(anchor_of(&f).is_loss_accepted);
    ck_assert_int_eq(state_open(&f), 0);
    write_and_close(&f);
    ck_assert(!anchor_of(&f).is_loss_accepted);
    /* The gap, its checkpoint, the line, its checkpoint. */
    ck_assert_uint_eq(anchor_of(&f).chain.sequence, 4);
    state_end(&f);
}
END_TEST

START_TEST(a_lost_key_is_not_replaced_in_silence)
{
    struct state_fixture f;
    struct public_keys *keys;
    state_begin(&f);
    ck_assert_int_eq(state_open(&f), 0);
    write_and_close(&f);
    ck_assert_int_eq(unlink(f.key), 0);
    ck_assert_int_eq(state_open(&f), -STATUS_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(f.actor.err.text, "audit.key"));
    ck_assert_int_eq(audit_anchor_accept_loss(f.actor.gateway.store, &f.actor.err), 0);
    ck_assert_msg(state_open(&f) == 0, "%s", f.actor.err.text);
    write_and_close(&f);
    /* What the old key signed is verified with its public half, which stays. */
    ck_assert_int_eq(public_keys_load(f.public_key, &keys, &f.actor.err), 0);
    public_keys_free(keys);
    struct stat st;
    ck_assert_int_eq(stat(f.public_key, &st), 0);
    ck_assert_int_eq(st.st_size, 2 * 113); /* two keys in PEM */
    state_end(&f);
}
END_TEST

/* ---- what is open ---- */

START_TEST(an_end_counts_when_it_is_on_the_disk)
{
    struct audit_open_list list = {0};
    struct audit_open a, b, none = {0};
    audit_open_list_add(&list, &a, 10);
    audit_open_list_add(&list, &b, 12);
    audit_open_list_note(&list, 20, 25);
    ck_assert_uint_eq(audit_open_list_since(&list), 0);
    audit_open_list_remove(&list, &a);
    audit_open_list_remove(&list, &none);
    audit_open_list_note(&list, 24, 30);
    ck_assert_uint_eq(audit_open_list_since(&list), 10);
    audit_open_list_note(&list, 29, 30);
    ck_assert_uint_eq(audit_open_list_since(&list), 12);
    audit_open_list_remove(&list, &b);
    audit_open_list_note(&list, 40, 41);
    ck_assert_uint_eq(audit_open_list_since(&list), 41);
    list.hold = 7;
    audit_open_list_note(&list, 50, 51);
    audit_open_list_note(&list, 50, 51);
    ck_assert_uint_eq(audit_open_list_since(&list), 7);
}
END_TEST

static void append_line(struct state_fixture *f, const char *json)
{
    struct buf record;
    buf_init(&record, 4096);
    buf_add_cstr(&record, json);
    ck_assert_int_eq(audit_log_append(f->actor.gateway.audit, &record, NULL, NULL), 0);
    buf_free(&record);
}

#define REQUEST(event, id, method, status, more)                                                   \
    "{\"kind\":\"AccessLog\",\"metadata\":{\"id\":\"i\",\"targetRef\":{\"uid\":\"t-1\"}},"         \
    "\"entry\":{"                                                                                  \
    "\"common\":{\"status\":\"" status                                                             \
    "\",\"reason\":{\"details\":{\"priority\":-1,\"a\":[true,null,"                                \
    "1.5]}}},\"info\":{\"grpc\":{\"path\":\"/octelium.api.main.cordium.v1." method                 \
    "\"}}},\"cordium\":{\"event\":\"" event "\",\"requestID\":\"" id "\"" more "}}"

static void close_log(struct state_fixture *f)
{
    audit_log_close(f->actor.gateway.audit);
    (void)uv_run(&f->loop, UV_RUN_DEFAULT);
    f->actor.gateway.audit = NULL;
}

/* A start: tells what is open. */
static void tell_unended(struct state_fixture *f, bool is_killed)
{
    struct audit_unended *u;
    struct audit_log *log = f->actor.gateway.audit;
    ck_assert_int_eq(audit_unended_read(f->dir, audit_log_open_since(log), &u, &f->actor.err), 0);
    ck_assert_int_eq(audit_unended_tell_requests(u, log, 1000000000, &f->actor.err), 0);
    ck_assert(audit_unended_has_run_end(u, "run-1"));
    ck_assert(!audit_unended_has_run_end(u, "run-2"));
    audit_unended_free(u);
    ck_assert_int_eq(audit_log_flush(log, &f->actor.err), 0);
    if (!is_killed) {
        audit_log_settle(log);
    }
}

static unsigned count_text(struct state_fixture *f, const char *text)
{
    char path[128];
    static char content[1 << 16];
    (void)snprintf(path, sizeof path, "%s/audit.jsonl", f->dir);
    AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, content, sizeof content - 1);
    ck_assert_int_gt(n, 0);
    content[n] = '\0';
    unsigned count = 0;
    for (const char *at = content; (at = strstr(at, text)); at += strlen(text)) {
        count++;
    }
    return count;
}

START_TEST(what_is_left_open_is_ended_once_however_often_the_next_start_is_killed)
{
    static const char of_end[] =
        "\"event\":\"END\",\"end\":\"LOST\",\"outcome\":{\"outcome\":\"lost\"";
    struct state_fixture f;
    struct audit_open open = {0};
    state_begin(&f);
    ck_assert_int_eq(state_open(&f), 0);
    audit_log_settle(f.actor.gateway.audit);
    audit_log_begin_open(f.actor.gateway.audit, &open);
    append_line(&f,
                REQUEST("DECISION", "r-open", "WorkspaceService/Exec", "ALLOWED",
                        ",\"attachedTo\":\"x\",\"run\":{\"command\":\"secret\",\"asRoot\":true}"));
    append_line(&f, REQUEST("DECISION", "r-ended", "WorkspaceService/Exec", "ALLOWED", ""));
    append_line(&f, REQUEST("END", "r-ended", "WorkspaceService/Exec", "ALLOWED", ""));
    append_line(&f, REQUEST("DECISION", "r-denied", "WorkspaceService/Exec", "DENIED", ""));
    append_line(&f, REQUEST("DECISION", "r-refused", "WorkspaceService/Exec", "ALLOWED",
                            ",\"refusal\":{\"code\":\"NOT_FOUND\"}"));
    append_line(&f, REQUEST("DECISION", "r-read", "MainService/ListWorkspace", "ALLOWED", ""));
    append_line(&f, "{\"kind\":\"RunLog\",\"cordium\":{\"event\":\"RUN_END\",\"outcome\":{"
                    "\"runId\":\"run-1\"}}}");
    close_log(&f);
    for (int kills = 0; kills < 3; kills++) {
        ck_assert_int_eq(state_open(&f), 0);
        ck_assert_uint_eq(audit_log_open_since(f.actor.gateway.audit), 1);
        tell_unended(&f, kills < 2);
        append_line(&f, "{}");
        close_log(&f);
        ck_assert_uint_eq(count_text(&f, of_end), 1);
    }
    ck_assert_uint_eq(count_text(&f, "\"requestID\":\"r-open\""), 2);
    ck_assert_uint_eq(count_text(&f, "\"asRoot\":true"), 2);
    ck_assert_uint_eq(count_text(&f, "\"priority\":-1,\"a\":[true,null,1.5]"), 7);
    ck_assert_uint_eq(count_text(&f, "secret") + count_text(&f, "attachedTo"), 2);
    ck_assert_int_eq(state_open(&f), 0);
    ck_assert_uint_gt(audit_log_open_since(f.actor.gateway.audit), 8);
    close_log(&f);
    state_end(&f);
}
END_TEST

Suite *suite_audit_state(void)
{
    Suite *s = suite_create("audit_state");
    TCase *t = tcase_create("state");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_first_start_makes_a_key_and_each_checkpoint_is_noted);
    tcase_add_test(t, a_lost_log_is_refused_until_the_loss_is_accepted_and_then_noted_anew);
    tcase_add_test(t, a_lost_key_is_not_replaced_in_silence);
    tcase_add_test(t, an_end_counts_when_it_is_on_the_disk);
    tcase_add_test(t, what_is_left_open_is_ended_once_however_often_the_next_start_is_killed);
    suite_add_tcase(s, t);
    return s;
}
