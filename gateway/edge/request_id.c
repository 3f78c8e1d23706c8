#include "gateway/edge/request_id.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>

void request_id_make(char id[REQUEST_ID_SIZE])
{
    uint64_t random[2] = {0, 0};
    /* A duplicate id would confuse a reader of the log and nothing else. */
    ssize_t ignored = getrandom(random, sizeof random, 0);
    (void)ignored;
    (void)snprintf(id, REQUEST_ID_SIZE, "%016llx%016llx", (unsigned long long)random[0],
                   (unsigned long long)random[1]);
}
