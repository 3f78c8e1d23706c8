#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/executor.h"
#include "executor/proc/fd.h"

/* Copies of storages that take long: the request waits, the daemon does not. A request to create a
 * sandbox from a snapshot is kept as it came and handled when the copy is there. */

struct copy_job {
    struct source source; /* first: pidfd of the child that copies */
    struct executor *ex;
    struct asker asker;
    struct storage_copy *copy;
    struct storage_id to;
    uint8_t *create; /* the body of a SANDBOX_CREATE, or NULL */
    size_t create_size;
    struct copy_job *next;
};

static void job_remove(struct copy_job *job)
{
    struct copy_job **at = &job->ex->copies;
    while (*at && *at != job) {
        at = &(*at)->next;
    }
    if (*at) {
        *at = job->next;
    }
    free(job->create);
    executor_unwatch(job->ex, &job->source);
    executor_free_later(job->ex, &job->source);
}

static void job_end(struct copy_job *job)
{
    struct error err;
    int r = storage_copy_end(job->copy, &err);
    if (r < 0) {
        reply_error(&job->asker, &err);
    } else if (!job->create) {
        reply_ok(&job->asker, NULL, -1);
    } else if (job->asker.connection && !job->ex->is_stopping) {
        sandbox_create_from_bytes(job->ex, job->create, job->create_size, job->asker);
    } else {
        (void)storage_delete(job->ex->storages, &job->to, &err); /* nobody will ask for it */
    }
}

static void job_handle(struct executor *ex, struct source *source, uint32_t events)
{
    struct copy_job *job = (struct copy_job *)source;
    (void)ex;
    (void)events;
    if (source->fd >= 0) {
        job_end(job);
        job_remove(job);
    }
}

/* Takes `create`. */
static void job_start(struct executor *ex, const struct storage_id *from,
                      const struct storage_id *to, enum storage_copy_kind kind, uint8_t *create,
                      size_t create_size, struct asker asker)
{
    struct error err;
    struct copy_job *job = calloc(1, sizeof *job);
    int pidfd = -1;
    int r = job ? storage_copy_begin(ex->storages, from, to, kind, &job->copy, &pidfd, &err)
                : error_set(&err, STATUS_RESOURCE_EXHAUSTED, "no memory to copy a storage");
    if (r < 0) {
        free(job);
        free(create);
        reply_error(&asker, &err);
        return;
    }
    job->source = (struct source){.fd = pidfd, .handle = job_handle};
    job->ex = ex;
    job->asker = asker;
    job->to = *to;
    job->create = create;
    job->create_size = create_size;
    job->next = ex->copies;
    ex->copies = job;
    if (executor_watch(ex, &job->source, EPOLLIN) < 0) {
        job_end(job); /* waits, but leaves nothing half done */
        job_remove(job);
    }
}

void copy_snapshot(struct executor *ex, const struct storage_id *from, const struct storage_id *to,
                   struct asker asker)
{
    job_start(ex, from, to, STORAGE_COPY_TO_SNAPSHOT, NULL, 0, asker);
}

bool copy_before_create(struct executor *ex, const struct sandbox_spec *spec, struct bytes body,
                        struct asker asker)
{
    static const struct executor_uuid none;
    struct storage_id from;
    struct storage_id to;
    memcpy(from.bytes, spec->storage_from.bytes, sizeof from.bytes);
    memcpy(to.bytes, spec->storage.bytes, sizeof to.bytes);
    if (memcmp(&spec->storage_from, &none, sizeof none) == 0 ||
        !storage_copies_slowly(ex->storages) ||
        storage_exists(ex->storages, &to, spec->is_ephemeral)) {
        return false;
    }
    size_t size = bytes_left(&body);
    uint8_t *create = malloc(size);
    if (!create) {
        struct error err;
        (void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, "no memory to copy a storage");
        reply_error(&asker, &err);
        return true;
    }
    memcpy(create, body.next, size);
    job_start(ex, &from, &to,
              spec->is_ephemeral ? STORAGE_COPY_TO_EPHEMERAL : STORAGE_COPY_TO_STORAGE, create,
              size, asker);
    return true;
}

void copy_forget_connection(struct executor *ex, const struct connection *c)
{
    for (struct copy_job *job = ex->copies; job; job = job->next) {
        if (job->asker.connection == c) {
            job->asker.connection = NULL;
        }
    }
}

void copy_end_all(struct executor *ex)
{
    while (ex->copies) {
        struct copy_job *job = ex->copies;
        (void)syscall(SYS_pidfd_send_signal, job->source.fd, SIGKILL, NULL, 0);
        job_end(job);
        job_remove(job);
    }
}
