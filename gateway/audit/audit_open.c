#include "gateway/audit/audit_open.h"

#include <stddef.h>

void audit_open_list_add(struct audit_open_list *list, struct audit_open *open, uint64_t sequence)
{
    *open = (struct audit_open){.older = list->newest, .sequence = sequence};
    if (list->newest) {
        list->newest->newer = open;
    } else {
        list->oldest = open;
    }
    list->newest = open;
}

void audit_open_list_remove(struct audit_open_list *list, struct audit_open *open)
{
    if (open->sequence == 0) {
        return;
    }
    if (open->older) {
        open->older->newer = open->newer;
    } else {
        list->oldest = open->newer;
    }
    if (open->newer) {
        open->newer->older = open->older;
    } else {
        list->newest = open->older;
    }
    *open = (struct audit_open){0};
}

static uint64_t oldest_sequence(const struct audit_open_list *list, uint64_t next)
{
    uint64_t oldest = list->oldest ? list->oldest->sequence : next;
    return list->hold && list->hold < oldest ? list->hold : oldest;
}

/* An end that was appended is not on the disk yet: what is sampled now counts when the lines that
 * are there now are. */
void audit_open_list_note(struct audit_open_list *list, uint64_t durable, uint64_t next)
{
    for (int i = 0; i < 2; i++) {
        if (list->sampled && durable >= list->sampled_end) {
            list->since = list->sampled;
            list->sampled = 0;
        }
        if (!list->sampled) {
            list->sampled = oldest_sequence(list, next);
            list->sampled_end = next - 1;
        }
    }
}

uint64_t audit_open_list_since(const struct audit_open_list *list)
{
    return list->since;
}
