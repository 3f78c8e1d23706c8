#include "gateway/auditfile/index_unread.h"

#include <fcntl.h>

void index_unread_stat(struct index_unread *u, int dir_fd)
{
    struct stat st = {0};
    (void)fstatat(dir_fd, u->name, &st, AT_SYMLINK_NOFOLLOW);
    u->changed = st.st_ctim;
    u->inode = st.st_ino;
    u->bytes = (uint64_t)st.st_size;
}

bool index_unread_has_changed(const struct index_unread *u, int dir_fd)
{
    struct index_unread now = *u;
    index_unread_stat(&now, dir_fd);
    return now.inode != u->inode || now.bytes != u->bytes ||
           now.changed.tv_sec != u->changed.tv_sec || now.changed.tv_nsec != u->changed.tv_nsec;
}

static void before(uint64_t first, uint64_t file, uint64_t *least)
{
    if (first > file && first < *least) {
        *least = first;
    }
}

/* Its lines end where the next file begins, and were written after those before it. */
static void place(struct index_unread *u, const struct index_snapshot *s)
{
    uint64_t next = UINT64_MAX;
    u->time_min = INT64_MIN;
    u->time_max = INT64_MAX;
    for (size_t i = 0; i < s->gap_count; i++) {
        before(s->gaps[i], u->file, &next);
    }
    for (size_t i = 0; i < s->unread_count; i++) {
        before(s->unread[i].file, u->file, &next);
    }
    for (size_t i = 0; i < s->chunk_count && u->time_max == INT64_MAX; i++) {
        const struct index_chunk *c = &s->chunks[i];
        before(c->file, u->file, &next);
        if (c->file < u->file) {
            u->time_min = c->time_max;
        } else if (c->file > u->file) {
            u->time_max = c->time_min;
        }
    }
    u->last_sequence = next == UINT64_MAX ? UINT64_MAX : next - 1;
}

void index_unread_place(struct index_snapshot *s)
{
    for (size_t i = 0; i < s->unread_count; i++) {
        place(&s->unread[i], s);
    }
}

bool index_unread_may_match(const struct index_unread *u, const struct index_filter *filter,
                            const struct index_range *range)
{
    bool is_in_range =
        !range || (u->last_sequence > range->after && (!range->before || u->file < range->before));
    bool is_in_time = !filter || !filter->has_time ||
                      (u->time_max >= filter->time_from && u->time_min < filter->time_to);
    return is_in_range && is_in_time;
}
