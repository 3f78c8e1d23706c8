/* Bytes as the kernel would answer the dump of a set of refused destinations. */
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "executor/steps/network_denials.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool check(void *context, const struct network_note *note)
{
    struct network_denials *denials = context;
    const struct network_denial *d = &note->denial;
    const bool is_destination = d->protocol == IPPROTO_TCP || d->protocol == IPPROTO_UDP;
    if (is_destination ? d->reason < NETWORK_DENIAL_PROTECTED || d->reason > NETWORK_DENIAL_DEFAULT
                       : d->protocol != 0 || d->address != 0 || d->port != 0 || d->reason != 0) {
        abort();
    }
    network_denials_add(denials, d);
    return denials->count <= NETWORK_DENIALS_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct network_denials denials = {0};
    bool is_last;
    (void)network_notes_parse(data, size, check, &denials, &is_last);
    return 0;
}
