#include "gateway/edge/source_table.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKET_COUNT = 1024, KEY_BYTES = 8 };

struct source {
    struct source *next;
    uint8_t key[KEY_BYTES];
    unsigned count;
};

struct source_table {
    struct source *buckets[BUCKET_COUNT];
};

struct source_table *source_table_new(void)
{
    return calloc(1, sizeof(struct source_table));
}

void source_table_free(struct source_table *t)
{
    if (!t) {
        return;
    }
    for (size_t i = 0; i < BUCKET_COUNT; i++) {
        while (t->buckets[i]) {
            struct source *gone = t->buckets[i];
            t->buckets[i] = gone->next;
            free(gone);
        }
    }
    free(t);
}

static void key_of(const struct sockaddr *address, uint8_t key[KEY_BYTES])
{
    memset(key, 0, KEY_BYTES);
    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, address, sizeof in);
        memcpy(key, &in.sin_addr, sizeof in.sin_addr);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, address, sizeof in6);
        bool is_v4 = IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr);
        memcpy(key, in6.sin6_addr.s6_addr + (is_v4 ? 12 : 0), is_v4 ? 4 : KEY_BYTES);
    }
}

static struct source **bucket_of(struct source_table *t, const uint8_t key[KEY_BYTES])
{
    uint64_t v;
    memcpy(&v, key, sizeof v);
    /* A chain made long on purpose costs its maker a connection a link. */
    return &t->buckets[(v * 0x9e3779b97f4a7c15u) >> 54];
}

struct source *source_table_take(struct source_table *t, const struct sockaddr *address,
                                 unsigned connections_max)
{
    uint8_t key[KEY_BYTES];
    key_of(address, key);
    struct source **bucket = bucket_of(t, key);
    for (struct source *s = *bucket; s; s = s->next) {
        if (memcmp(s->key, key, KEY_BYTES) == 0) {
            if (s->count >= connections_max) {
                return NULL;
            }
            s->count++;
            return s;
        }
    }
    struct source *s = calloc(1, sizeof *s);
    if (s) {
        memcpy(s->key, key, KEY_BYTES);
        s->count = 1;
        s->next = *bucket;
        *bucket = s;
    }
    return s;
}

void source_table_release(struct source_table *t, struct source *source)
{
    if (!source || --source->count > 0) {
        return;
    }
    struct source **link = bucket_of(t, source->key);
    while (*link != source) {
        link = &(*link)->next;
    }
    *link = source->next;
    free(source);
}
