#ifndef EXECUTOR_STEPS_BUILD_NETWORK_H
#define EXECUTOR_STEPS_BUILD_NETWORK_H

#include "executor/config.h"
#include "executor/steps/network.h"

/* The network of a build, from the executor's config alone: an allow list and the host's resolvers,
 * or everything public when there is none, and chosen ports of the host's loopback (a registry). */
struct build_network {
    struct network_policy policy;
    struct network_rule rules[2];
    struct network_cidr cidrs[CONFIG_ALLOW_MAX];
    struct network_cidr resolvers[NETWORK_RESOLVERS_MAX];
};

/* Fills *build; the result points into it and into the config. */
const struct network_policy *build_network_policy(struct build_network *build,
                                                  const struct config *config);

#endif
