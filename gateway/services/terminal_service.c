#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/gateway.h"
#include "gateway/identity/token.h"
#include "gateway/services/terminal.h"
#include "gateway/services/terminal_table.h"
#include "gateway/services/workspace_access.h"

enum { SUFFIX_LEN = 4, SIZE_DEFAULT_COLUMNS = 80, SIZE_DEFAULT_ROWS = 24 };

/* --- finding --- */

/* ^[a-z][a-z0-9]{2,6}-[a-z0-9]{4}$: the workspace's name, then the terminal's own part. */
static bool id_is_valid(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789");
    return id[0] >= 'a' && id[0] <= 'z' && n >= 3 && n <= 7 && id[n] == '-' &&
           strspn(id + n + 1, "abcdefghijklmnopqrstuvwxyz0123456789") == SUFFIX_LEN &&
           id[n + 1 + SUFFIX_LEN] == '\0';
}

static int unknown(const char *id, struct error *err)
{
    return error_set(err, STATUS_INVALID_ARGUMENT, "Terminal '%.40s' does not exist", id);
}

/* The workspace is named by the terminal's id. */
static int access_by_id(struct request *r, const char *id, struct error *err)
{
    if (!id_is_valid(id)) {
        return unknown(id, err);
    }
    const char *name = arena_strndup(&r->arena, id, strcspn(id, "-"));
    if (!name) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
    }
    int rc = workspace_access(r, NULL, name, err);
    return rc == -STATUS_NOT_FOUND ? unknown(id, err) : rc;
}

static struct workspace_run *run_of(struct request *r)
{
    return workspace_run_find(r->gateway->workspaces, r->touched.workspace->metadata->uid);
}

static struct terminal *find(struct request *r, const char *id)
{
    struct workspace_run *run = run_of(r);
    struct terminal *t = run ? run->terminals : NULL;
    while (t && strcmp(terminal_id(t), id) != 0) {
        t = terminal_next(t);
    }
    if (t) {
        workspace_run_touch(run);
    }
    return t;
}

static void fail_unknown(struct request *r, const char *id)
{
    request_fail_with(r, STATUS_INVALID_ARGUMENT,
                      "Terminal '%.40s' does not exist (any more); list them or create one", id);
}

static uint16_t size_of(uint32_t asked, uint16_t fallback)
{
    if (asked == 0) {
        return fallback;
    }
    return asked > TERMINAL_SIZE_MAX ? TERMINAL_SIZE_MAX : (uint16_t)asked;
}

/* --- create --- */

/* The policy sees a terminal as a run of the shell. */
int create_terminal_resolve(struct request *r, struct error *err)
{
    const Cordium__CreateTerminalRequest *message =
        (const Cordium__CreateTerminalRequest *)r->message;
    int rc = workspace_access_by_ref(r, message->workspace_ref, err);
    if (rc) {
        return rc;
    }
    struct run_request *run = arena_zalloc(&r->arena, sizeof *run);
    if (!run) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "no memory");
    }
    run->working_dir = "";
    run->has_stdin = true;
    run->is_terminal = true;
    token_sha256(run->command, run->command_sha256);
    r->run = run;
    return 0;
}

static int new_id(const struct workspace_run *run, char ret[24], struct error *err)
{
    char suffix[SUFFIX_LEN + 1];
    int rc = token_random_label(SUFFIX_LEN, suffix, err);
    if (!rc) {
        (void)snprintf(ret, 24, "%.8s-%s", run->workspace->metadata->name, suffix);
    }
    return rc;
}

void create_terminal_handle(struct request *r)
{
    const Cordium__CreateTerminalRequest *message =
        (const Cordium__CreateTerminalRequest *)r->message;
    struct workspace_run *run = run_of(r);
    struct error err = {0};
    char id[24];
    if (!workspace_run_is_ready(run)) {
        request_fail_with(r, STATUS_INVALID_ARGUMENT,
                          "The Workspace is not ready: %s; start it and wait until it is RUNNING",
                          r->touched.workspace->metadata->name);
        return;
    }
    if (run->terminal_count >= TERMINALS_PER_WORKSPACE_MAX) {
        request_fail_with(r, STATUS_INVALID_ARGUMENT,
                          "The Workspace has %u terminals, the most it may have; remove one",
                          run->terminal_count);
        return;
    }
    if (new_id(run, id, &err)) {
        request_fail(r, &err);
        return;
    }
    struct terminal *t = terminal_new(run, id, size_of(message->cols, SIZE_DEFAULT_COLUMNS),
                                      size_of(message->rows, SIZE_DEFAULT_ROWS));
    if (!t) {
        request_fail_memory(r);
        return;
    }
    workspace_run_touch(run);
    terminal_start(t, r);
}

/* --- remove, list --- */

/* Removing what is not there is no error, so neither is looking for it. */
int remove_terminal_resolve(struct request *r, struct error *err)
{
    const char *id = ((const Cordium__RemoveTerminalRequest *)r->message)->id;
    int rc = access_by_id(r, id, err);
    if (rc == -STATUS_INVALID_ARGUMENT) {
        err->status = 0;
        return 0;
    }
    return rc;
}

void remove_terminal_handle(struct request *r)
{
    const char *id = ((const Cordium__RemoveTerminalRequest *)r->message)->id;
    struct terminal *t = r->touched.workspace ? find(r, id) : NULL;
    if (t) {
        terminal_remove(t);
    }
    request_reply_empty(r);
}

int list_terminal_resolve(struct request *r, struct error *err)
{
    return workspace_access_by_ref(
        r, ((const Cordium__ListTerminalRequest *)r->message)->workspace_ref, err);
}

void list_terminal_handle(struct request *r)
{
    struct workspace_run *run = run_of(r);
    Cordium__ListTerminalResponse answer = CORDIUM__LIST_TERMINAL_RESPONSE__INIT;
    size_t count = run ? run->terminal_count : 0;
    Cordium__Terminal *items = arena_calloc(&r->arena, count, sizeof *items);
    answer.items = arena_calloc(&r->arena, count, sizeof *answer.items);
    if (!items || !answer.items) {
        request_fail_memory(r);
        return;
    }
    /* The list has the newest first; the answer the oldest. */
    size_t i = count;
    for (struct terminal *t = run ? run->terminals : NULL; t && i > 0; t = terminal_next(t)) {
        i--;
        cordium__terminal__init(&items[i]);
        items[i].id = arena_strdup(&r->arena, terminal_id(t));
        answer.items[i] = &items[i];
    }
    answer.n_items = count;
    request_reply(r, &answer.base);
}

/* --- write, resize, listen --- */

int write_terminal_data_resolve(struct request *r, struct error *err)
{
    return access_by_id(r, ((const Cordium__WriteTerminalDataRequest *)r->message)->id, err);
}

void write_terminal_data_handle(struct request *r)
{
    const Cordium__WriteTerminalDataRequest *message =
        (const Cordium__WriteTerminalDataRequest *)r->message;
    struct terminal *t = find(r, message->id);
    struct error err = {0};
    if (!t) {
        fail_unknown(r, message->id);
        return;
    }
    if (message->data.len > TERMINAL_WRITE_MAX_BYTES) {
        request_fail_with(r, STATUS_INVALID_ARGUMENT,
                          "Data size is too big: %zu bytes; write at most %d at once",
                          message->data.len, TERMINAL_WRITE_MAX_BYTES);
        return;
    }
    if (terminal_write(t, str_make(message->data.data, message->data.len), &err)) {
        request_fail(r, &err);
        return;
    }
    request_reply_empty(r);
}

int set_terminal_window_size_resolve(struct request *r, struct error *err)
{
    return access_by_id(r, ((const Cordium__SetTerminalWindowSizeRequest *)r->message)->id, err);
}

void set_terminal_window_size_handle(struct request *r)
{
    const Cordium__SetTerminalWindowSizeRequest *message =
        (const Cordium__SetTerminalWindowSizeRequest *)r->message;
    struct terminal *t = find(r, message->id);
    if (!t) {
        fail_unknown(r, message->id);
        return;
    }
    if (message->cols == 0 || message->rows == 0) {
        request_fail_with(r, STATUS_INVALID_ARGUMENT, "cols and rows must be at least 1");
        return;
    }
    terminal_resize(t, size_of(message->cols, SIZE_DEFAULT_COLUMNS),
                    size_of(message->rows, SIZE_DEFAULT_ROWS));
    request_reply_empty(r);
}

int listen_terminal_resolve(struct request *r, struct error *err)
{
    return access_by_id(r, ((const Cordium__ListenTerminalRequest *)r->message)->id, err);
}

void listen_terminal_handle(struct request *r)
{
    const char *id = ((const Cordium__ListenTerminalRequest *)r->message)->id;
    struct terminal *t = find(r, id);
    struct error err = {0};
    if (!t) {
        fail_unknown(r, id);
        return;
    }
    if (terminal_listen(t, r, &err)) {
        request_fail(r, &err);
    }
}
