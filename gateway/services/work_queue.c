#include "gateway/services/work_queue.h"

#include <stdlib.h>
#include <uv.h>

#include "gateway/gateway.h"

struct work_queue {
    struct gateway *gateway;
    uv_work_t job;
    struct work *running; /* NULL: the thread is free */
    struct work *first;   /* that wait */
    struct work *last;
    unsigned count;
};

int work_queue_new(struct gateway *g, struct work_queue **ret, struct error *err)
{
    struct work_queue *queue = calloc(1, sizeof *queue);
    if (!queue) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    queue->gateway = g;
    queue->job.data = queue;
    *ret = queue;
    return 0;
}

void work_queue_free(struct work_queue *queue)
{
    free(queue);
}

struct work *work_new(struct request *r, size_t arena_max_bytes)
{
    struct work *work = calloc(1, sizeof *work);
    if (work) {
        work->request = r;
        arena_init(&work->arena, arena_max_bytes);
        request_hold(r);
    }
    return work;
}

void work_cancel(struct work *work)
{
    if (!work) {
        return;
    }
    struct request *r = work->request;
    if (work->end) {
        work->end(work);
    }
    arena_free(&work->arena);
    free(work);
    request_release(r);
}

static void finish(struct work *work)
{
    struct request *r = work->request;
    if (!request_is_over(r)) {
        if (work->status) {
            request_fail(r, &work->err);
        } else {
            request_reply(r, work->reply);
        }
    }
    work_cancel(work);
}

static void run(uv_work_t *job)
{
    struct work *work = ((struct work_queue *)job->data)->running;
    work->status = work->run(work, &work->reply, &work->err);
}

static void begin_next(struct work_queue *queue);

static void after_run(uv_work_t *job, int status)
{
    struct work_queue *queue = job->data;
    struct work *work = queue->running;
    queue->running = NULL;
    if (status) {
        work->status = error_set(&work->err, STATUS_INTERNAL, "work: %s", uv_strerror(status));
    }
    finish(work);
    begin_next(queue);
}

/* Those whose client went away meanwhile are not worked on. */
static void begin_next(struct work_queue *queue)
{
    while (!queue->running && queue->first) {
        struct work *work = queue->first;
        queue->first = work->next;
        queue->count--;
        if (request_is_over(work->request)) {
            finish(work);
            continue;
        }
        queue->running = work;
        int rc = uv_queue_work(queue->gateway->loop, &queue->job, run, after_run);
        if (rc) {
            queue->running = NULL;
            work->status = error_set(&work->err, STATUS_INTERNAL, "work: %s", uv_strerror(rc));
            finish(work);
        }
    }
}

void work_queue_add(struct work_queue *queue, struct work *work)
{
    if (queue->count >= WORK_QUEUE_MAX) {
        work->status = error_set(&work->err, STATUS_RESOURCE_EXHAUSTED,
                                 "%d checks and tests of policies wait already; try again later",
                                 WORK_QUEUE_MAX);
        finish(work);
        return;
    }
    work->next = NULL;
    if (queue->first) {
        queue->last->next = work;
    } else {
        queue->first = work;
    }
    queue->last = work;
    queue->count++;
    begin_next(queue);
}
