#include "gateway/auditfile/crew.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct member {
    struct crew *crew;
    pthread_t thread;
    unsigned number;
};

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t begun;
    pthread_cond_t ended;
    /* Under the lock. */
    unsigned round;
    unsigned busy; /* members that are not done with this round */
    bool is_over;
    size_t next, count;
    void (*job)(void *arg, size_t i, unsigned member);
    void *arg;

    unsigned members;
    struct member list[CREW_MEMBERS_MAX]; /* the caller is number 0 */
};

/* Takes jobs until there are none; the lock is held on entry and on return. */
static void work(struct crew *c, unsigned number)
{
    while (c->next < c->count) {
        size_t i = c->next++;
        (void)pthread_mutex_unlock(&c->lock);
        c->job(c->arg, i, number);
        (void)pthread_mutex_lock(&c->lock);
    }
}

static void *run_member(void *arg)
{
    struct member *m = arg;
    struct crew *c = m->crew;
    unsigned seen = 0;
    (void)pthread_mutex_lock(&c->lock);
    for (;;) {
        while (c->round == seen && !c->is_over) {
            (void)pthread_cond_wait(&c->begun, &c->lock);
        }
        if (c->is_over) {
            break;
        }
        seen = c->round;
        work(c, m->number);
        if (--c->busy == 0) {
            (void)pthread_cond_signal(&c->ended);
        }
    }
    (void)pthread_mutex_unlock(&c->lock);
    return NULL;
}

struct crew *crew_new(unsigned members)
{
    struct crew *c = calloc(1, sizeof *c);
    if (!c) {
        return NULL;
    }
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->begun, NULL);
    (void)pthread_cond_init(&c->ended, NULL);
    c->members = 1;
    while (c->members < members && c->members < CREW_MEMBERS_MAX) {
        struct member *m = &c->list[c->members];
        *m = (struct member){.crew = c, .number = c->members};
        if (pthread_create(&m->thread, NULL, run_member, m) != 0) {
            break; /* fewer are slower and no less right */
        }
        c->members++;
    }
    return c;
}

void crew_free(struct crew *c)
{
    if (!c) {
        return;
    }
    (void)pthread_mutex_lock(&c->lock);
    c->is_over = true;
    (void)pthread_cond_broadcast(&c->begun);
    (void)pthread_mutex_unlock(&c->lock);
    for (unsigned i = 1; i < c->members; i++) {
        (void)pthread_join(c->list[i].thread, NULL);
    }
    (void)pthread_cond_destroy(&c->begun);
    (void)pthread_cond_destroy(&c->ended);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

unsigned crew_members(const struct crew *c)
{
    return c->members;
}

void crew_run(struct crew *c, size_t count, void (*job)(void *arg, size_t i, unsigned member),
              void *arg)
{
    (void)pthread_mutex_lock(&c->lock);
    c->next = 0;
    c->count = count;
    c->job = job;
    c->arg = arg;
    c->busy = c->members;
    c->round++;
    (void)pthread_cond_broadcast(&c->begun);
    work(c, 0);
    c->busy--;
    while (c->busy > 0) {
        (void)pthread_cond_wait(&c->ended, &c->lock);
    }
    (void)pthread_mutex_unlock(&c->lock);
}
