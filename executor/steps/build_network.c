#include "executor/steps/build_network.h"

#include <arpa/inet.h>
#include <string.h>

static const uint16_t dns_port = 53;

static void set_cidr(struct network_cidr *cidr, uint32_t host_order, uint8_t prefix_length)
{
    uint32_t address = htonl(host_order);
    cidr->family = 4;
    cidr->prefix_length = prefix_length;
    memcpy(cidr->address, &address, sizeof address);
}

/* An allow list of names' addresses is of no use to who cannot ask for the names. */
static void add_resolvers(struct build_network *build, const struct config *config)
{
    uint32_t resolvers[NETWORK_RESOLVERS_MAX];
    size_t count = network_read_resolvers(config->resolv_conf, resolvers);
    for (size_t i = 0; i < count; i++) {
        set_cidr(&build->resolvers[i], resolvers[i], 32);
    }
    if (count > 0) {
        build->rules[build->policy.rule_count++] = (struct network_rule){
            .action = NETWORK_ACTION_ALLOW,
            .cidrs = build->resolvers,
            .cidr_count = count,
            .ports = &dns_port,
            .port_count = 1,
        };
    }
}

const struct network_policy *build_network_policy(struct build_network *build,
                                                  const struct config *config)
{
    *build = (struct build_network){0};
    build->policy = (struct network_policy){
        .mode = NETWORK_MODE_RULES,
        .default_action = NETWORK_ACTION_ALLOW_PUBLIC,
        .rules = build->rules,
        .loopback_ports = config->build_loopback_ports,
        .loopback_port_count = config->build_loopback_port_count,
    };
    if (config->build_allow_count == 0) {
        return &build->policy;
    }
    for (uint32_t i = 0; i < config->build_allow_count; i++) {
        set_cidr(&build->cidrs[i], config->build_allow[i].address,
                 config->build_allow[i].prefix_length);
    }
    build->policy.default_action = NETWORK_ACTION_DENY;
    build->rules[build->policy.rule_count++] = (struct network_rule){
        .action = NETWORK_ACTION_ALLOW,
        .cidrs = build->cidrs,
        .cidr_count = config->build_allow_count,
    };
    add_resolvers(build, config);
    return &build->policy;
}
