#include "executor/steps/build_network.h"

#include <arpa/inet.h>
#include <string.h>

const struct network_policy *build_network_policy(struct build_network *build,
                                                  const struct config *config)
{
    *build = (struct build_network){0};
    for (uint32_t i = 0; i < config->build_allow_count; i++) {
        uint32_t address = htonl(config->build_allow[i].address);
        build->cidrs[i].family = 4;
        build->cidrs[i].prefix_length = config->build_allow[i].prefix_length;
        memcpy(build->cidrs[i].address, &address, sizeof address);
    }
    build->rule = (struct network_rule){
        .action = NETWORK_ACTION_ALLOW,
        .cidrs = build->cidrs,
        .cidr_count = config->build_allow_count,
    };
    build->policy = (struct network_policy){
        .mode = NETWORK_MODE_RULES,
        .default_action =
            config->build_allow_count ? NETWORK_ACTION_DENY : NETWORK_ACTION_ALLOW_PUBLIC,
        .rules = &build->rule,
        .rule_count = config->build_allow_count ? 1 : 0,
        .loopback_ports = config->build_loopback_ports,
        .loopback_port_count = config->build_loopback_port_count,
    };
    return &build->policy;
}
