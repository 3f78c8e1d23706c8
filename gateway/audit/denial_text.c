#include "gateway/audit/denial_text.h"

#include <stdio.h>

void denial_address_format(const struct executor_denial *denial, char ret[DENIAL_ADDRESS_SIZE])
{
    const uint32_t a = denial->address;
    (void)snprintf(ret, DENIAL_ADDRESS_SIZE, "%u.%u.%u.%u", a >> 24, (a >> 16) & 255,
                   (a >> 8) & 255, a & 255);
}

const char *denial_protocol(const struct executor_denial *denial)
{
    return denial->is_udp ? "UDP" : "TCP";
}

const char *denial_reason(const struct executor_denial *denial)
{
    switch (denial->reason) {
    case EXECUTOR_DENIAL_PROTECTED:
        return "PROTECTED_RANGE";
    case EXECUTOR_DENIAL_CONNECTIONS:
        return "CONNECTION_LIMIT";
    case EXECUTOR_DENIAL_RULE:
        return "DENY_RULE";
    case EXECUTOR_DENIAL_NON_PUBLIC:
        return "NOT_PUBLIC";
    case EXECUTOR_DENIAL_DEFAULT:
        return "NO_ALLOW_RULE";
    }
    return "UNKNOWN";
}

uint64_t denial_packets(const struct executor_network_denied *denied)
{
    uint64_t sum = denied->others;
    for (size_t i = 0; i < denied->count; i++) {
        sum += denied->entries[i].packets;
    }
    return sum;
}
