#include "gateway/services/audit_desk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "gateway/audit/audit_log.h"
#include "gateway/audit/audit_out.h"
#include "gateway/config.h"
#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/access.h"
#include "gateway/services/audit_service.h"
#include "policy/base/json_out.h"

enum { NOTE_MAX_BYTES = 32 << 10 };

struct audit_desk {
    struct gateway *gateway;
    struct line_index *index;
    struct audit_task *tasks; /* all; of the loop */
    uv_async_t async;         /* a step was done, or the index has new lines */
    uv_timer_t timer;
    unsigned open_handles;
    pthread_t threads[AUDIT_DESK_THREADS];
    unsigned thread_count;

    pthread_mutex_t lock;
    pthread_cond_t queued;
    /* Under the lock. */
    struct audit_task *first, *last; /* of the queue */
    bool is_stopping;
    bool has_new_lines;
    uint64_t progress; /* counts what the index told */
};

/* ---- the threads ---- */

static struct audit_task *take_next(struct audit_desk *desk)
{
    while (!desk->first && !desk->is_stopping) {
        (void)pthread_cond_wait(&desk->queued, &desk->lock);
    }
    struct audit_task *task = desk->is_stopping ? NULL : desk->first;
    if (task) {
        desk->first = task->next_in_queue;
        desk->last = desk->first ? desk->last : NULL;
    }
    return task;
}

static void *run_thread(void *arg)
{
    struct audit_desk *desk = arg;
    struct audit_task *task;
    (void)pthread_mutex_lock(&desk->lock);
    while ((task = take_next(desk))) {
        (void)pthread_mutex_unlock(&desk->lock);
        task->status = atomic_load(&task->is_cancelled)
                           ? error_set(&task->err, STATUS_CANCELLED, "nobody waits for it any more")
                           : task->step(task, &task->err);
        (void)pthread_mutex_lock(&desk->lock);
        task->place = AUDIT_TASK_DONE;
        (void)uv_async_send(&desk->async);
    }
    (void)pthread_mutex_unlock(&desk->lock);
    return NULL;
}

/* From the index's thread. */
static void on_progress(void *arg)
{
    struct audit_desk *desk = arg;
    (void)pthread_mutex_lock(&desk->lock);
    desk->has_new_lines = true;
    desk->progress++;
    if (!desk->is_stopping) {
        (void)uv_async_send(&desk->async);
    }
    (void)pthread_mutex_unlock(&desk->lock);
}

/* ---- tasks ---- */

static void free_task(struct audit_task *task)
{
    struct audit_desk *desk = task->desk;
    struct request *r = task->request;
    for (struct audit_task **at = &desk->tasks; *at; at = &(*at)->next) {
        if (*at == task) {
            *at = task->next;
            break;
        }
    }
    if (!desk->tasks && desk->open_handles > 0) {
        (void)uv_timer_stop(&desk->timer);
    }
    if (task->end) {
        task->end(task);
    }
    r->state = NULL;
    r->on_gone = NULL;
    r->on_cancel = NULL;
    r->on_writable = NULL;
    arena_free(&task->arena);
    free(task);
    request_release(r);
}

/* What was asked, and how much was given. */
static void note(struct audit_task *task)
{
    struct buf text;
    struct buf question;
    struct error ignored;
    buf_init(&text, NOTE_MAX_BYTES);
    struct json_out j = json_out_to(&text);
    json_begin_object(&j);
    buf_init(&question, NOTE_MAX_BYTES / 4);
    if (codec_encode_json(task->request->message, &question, &ignored) == 0) {
        /* As text, since what somebody else wrote leaves by one door only. */
        audit_put_long_text(&j, "question", buf_str(&question), NOTE_MAX_BYTES / 4);
    }
    buf_free(&question);
    json_member_uint(&j, "records", task->records);
    json_end_object(&j);
    if (!text.failed) {
        request_set_outcome(task->request, buf_str(&text));
    }
    buf_free(&text);
}

static bool is_idle(struct audit_task *task)
{
    (void)pthread_mutex_lock(&task->desk->lock);
    bool has_none = task->place == AUDIT_TASK_IDLE;
    (void)pthread_mutex_unlock(&task->desk->lock);
    return has_none;
}

static void on_tick(uv_timer_t *timer)
{
    struct audit_desk *desk = timer->data;
    for (struct audit_task *task = desk->tasks; task; task = task->next) {
        if (task->tick && !request_is_over(task->request)) {
            task->tick(task);
        }
    }
}

static void cancel(struct audit_task *task)
{
    atomic_store(&task->is_cancelled, true);
    if (task->cancel) {
        task->cancel(task);
    }
}

/* The call is over. A step that runs ends first. */
static void on_gone(struct request *r)
{
    struct audit_task *task = r->state;
    if (!task) {
        return;
    }
    cancel(task);
    if (is_idle(task)) {
        free_task(task);
    }
}

/* The call ends unanswered, or its caller may not read the log any more: its last line is due. */
static bool on_cancel(struct request *r)
{
    if (r->state) {
        note(r->state);
    }
    return false;
}

static void on_writable(struct request *r)
{
    struct audit_task *task = r->state;
    if (task && task->waits_for_client) {
        audit_task_go_on(task);
    }
}

static unsigned count_tasks(const struct audit_desk *desk, bool are_watches, const char *user_uid)
{
    unsigned count = 0;
    for (const struct audit_task *t = desk->tasks; t; t = t->next) {
        count += t->is_watch == are_watches &&
                 (!user_uid || strcmp(access_user_uid(t->request), user_uid) == 0);
    }
    return count;
}

static bool refuse_too_many(struct request *r, bool is_watch)
{
    const struct audit_desk *desk = r->gateway->audit_desk;
    const char *user = access_user_uid(r);
    unsigned own_max = is_watch ? AUDIT_WATCHES_PER_USER_MAX : AUDIT_TASKS_PER_USER_MAX;
    unsigned all_max = is_watch ? AUDIT_WATCHES_MAX : AUDIT_TASKS_MAX;
    const char *what = is_watch ? "watch" : "read";
    if (count_tasks(desk, is_watch, user) >= own_max) {
        request_fail_with(r, STATUS_RESOURCE_EXHAUSTED,
                          "User '%.60s' has %u calls that %s the audit log already, which is the "
                          "limit; end one, or wait for it",
                          access_user_name(r), own_max, what);
        return true;
    }
    if (count_tasks(desk, is_watch, NULL) >= all_max) {
        request_fail_with(r, STATUS_RESOURCE_EXHAUSTED,
                          "%u calls of all users %s the audit log already; try again later",
                          all_max, what);
        return true;
    }
    return false;
}

bool audit_desk_is_verifying(const struct audit_desk *desk)
{
    for (const struct audit_task *t = desk->tasks; t; t = t->next) {
        if (t->is_verification) {
            return true;
        }
    }
    return false;
}

struct audit_task *audit_task_new(struct request *r, bool is_watch, size_t arena_max_bytes)
{
    struct audit_desk *desk = r->gateway->audit_desk;
    if (refuse_too_many(r, is_watch)) {
        return NULL;
    }
    struct audit_task *task = calloc(1, sizeof *task);
    struct error err;
    if (!task || open_calls_judge_policies(r, &err) < 0) {
        request_fail_memory(r);
        free(task);
        return NULL;
    }
    task->request = r;
    task->desk = desk;
    task->is_watch = is_watch;
    task->log_sequence =
        audit_log_sequence(r->gateway->audit) - audit_log_lag(r->gateway->audit).lines;
    arena_init(&task->arena, arena_max_bytes);
    if (!desk->tasks) {
        (void)uv_timer_start(&desk->timer, on_tick, AUDIT_TICK_MS, AUDIT_TICK_MS);
    }
    task->next = desk->tasks;
    desk->tasks = task;
    request_hold(r);
    r->state = task;
    r->on_gone = on_gone;
    r->on_cancel = on_cancel;
    r->on_writable = on_writable;
    return task;
}

void audit_task_go_on(struct audit_task *task)
{
    struct audit_desk *desk = task->desk;
    task->waits_for_client = false;
    task->waits_for_lines = false;
    task->next_in_queue = NULL;
    (void)pthread_mutex_lock(&desk->lock);
    task->place = AUDIT_TASK_QUEUED;
    task->progress = desk->progress;
    if (desk->first) {
        desk->last->next_in_queue = task;
    } else {
        desk->first = task;
    }
    desk->last = task;
    (void)pthread_cond_signal(&desk->queued);
    (void)pthread_mutex_unlock(&desk->lock);
}

/* What came while the step ran may be new to it. */
void audit_task_await_lines(struct audit_task *task)
{
    struct audit_desk *desk = task->desk;
    (void)pthread_mutex_lock(&desk->lock);
    bool has_more = desk->progress != task->progress;
    (void)pthread_mutex_unlock(&desk->lock);
    if (has_more) {
        audit_task_go_on(task);
    } else {
        task->waits_for_lines = true;
    }
}

void audit_task_await_client(struct audit_task *task)
{
    task->waits_for_client = true;
}

void audit_task_reply(struct audit_task *task)
{
    note(task);
    request_reply(task->request, task->reply);
}

void audit_task_finish(struct audit_task *task)
{
    note(task);
    request_finish(task->request);
}

/* ---- the loop ---- */

static void finish_step(struct audit_task *task)
{
    struct request *r = task->request;
    task->place = AUDIT_TASK_IDLE;
    request_hold(r);
    if (request_is_over(r)) {
        free_task(task);
    } else if (task->status) {
        note(task);
        request_fail(r, &task->err);
        free_task(task);
    } else {
        task->stepped(task);
        if (request_is_over(r) && r->state == task && task->place == AUDIT_TASK_IDLE) {
            free_task(task);
        }
    }
    request_release(r);
}

static struct audit_task *find_done(struct audit_desk *desk)
{
    struct audit_task *found = NULL;
    (void)pthread_mutex_lock(&desk->lock);
    for (struct audit_task *t = desk->tasks; t && !found; t = t->next) {
        found = t->place == AUDIT_TASK_DONE ? t : NULL;
    }
    (void)pthread_mutex_unlock(&desk->lock);
    return found;
}

static void on_async(uv_async_t *async)
{
    struct audit_desk *desk = async->data;
    struct audit_task *task;
    (void)pthread_mutex_lock(&desk->lock);
    bool has_new_lines = desk->has_new_lines;
    desk->has_new_lines = false;
    (void)pthread_mutex_unlock(&desk->lock);
    while ((task = find_done(desk))) {
        finish_step(task);
    }
    for (task = has_new_lines ? desk->tasks : NULL; task; task = task->next) {
        if (task->waits_for_lines) {
            audit_task_go_on(task);
        }
    }
}

static void on_written(void *arg, struct str lines)
{
    (void)lines;
    line_index_wake(((struct audit_desk *)arg)->index);
}

/* ---- open and close ---- */

static int open_handles(struct audit_desk *desk, struct error *err)
{
    uv_loop_t *loop = desk->gateway->loop;
    if (uv_async_init(loop, &desk->async, on_async) < 0) {
        return error_set(err, STATUS_INTERNAL, "no handle for the audit log's readers");
    }
    (void)uv_timer_init(loop, &desk->timer);
    desk->async.data = desk;
    desk->timer.data = desk;
    uv_unref((uv_handle_t *)&desk->async);
    uv_unref((uv_handle_t *)&desk->timer);
    desk->open_handles = 2;
    return 0;
}

static int start_threads(struct audit_desk *desk, struct error *err)
{
    while (desk->thread_count < AUDIT_DESK_THREADS) {
        if (pthread_create(&desk->threads[desk->thread_count], NULL, run_thread, desk) != 0) {
            return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                             "no thread for the audit log's readers");
        }
        desk->thread_count++;
    }
    return 0;
}

int audit_desk_new(struct gateway *g, struct audit_desk **ret, struct error *err)
{
    struct audit_desk *desk = calloc(1, sizeof *desk);
    if (!desk) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    desk->gateway = g;
    (void)pthread_mutex_init(&desk->lock, NULL);
    (void)pthread_cond_init(&desk->queued, NULL);
    const struct line_index_options options = {g->config->audit_dir, on_progress, desk};
    int rc = open_handles(desk, err);
    rc = rc ? rc : line_index_open(&options, &desk->index, err);
    rc = rc ? rc : start_threads(desk, err);
    if (rc) {
        audit_desk_close(desk);
        (void)uv_run(g->loop, UV_RUN_NOWAIT);
        audit_desk_free(desk);
        return rc;
    }
    const struct audit_observer observer = {.written = on_written, .arg = desk};
    audit_log_add_observer(g->audit, &observer);
    *ret = desk;
    return 0;
}

static void on_closed(uv_handle_t *handle)
{
    struct audit_desk *desk = handle->data;
    desk->open_handles--;
}

void audit_desk_close(struct audit_desk *desk)
{
    if (!desk) {
        return;
    }
    for (struct audit_task *t = desk->tasks; t; t = t->next) {
        cancel(t);
    }
    (void)pthread_mutex_lock(&desk->lock);
    desk->is_stopping = true;
    (void)pthread_cond_broadcast(&desk->queued);
    (void)pthread_mutex_unlock(&desk->lock);
    for (unsigned i = 0; i < desk->thread_count; i++) {
        (void)pthread_join(desk->threads[i], NULL);
    }
    desk->thread_count = 0;
    while (desk->tasks) {
        free_task(desk->tasks);
    }
    if (desk->open_handles > 0) {
        uv_close((uv_handle_t *)&desk->async, on_closed);
        uv_close((uv_handle_t *)&desk->timer, on_closed);
    }
}

void audit_desk_free(struct audit_desk *desk)
{
    if (desk) {
        line_index_close(desk->index);
        (void)pthread_cond_destroy(&desk->queued);
        (void)pthread_mutex_destroy(&desk->lock);
        free(desk);
    }
}

struct line_index *audit_desk_index(struct audit_desk *desk)
{
    return desk->index;
}
