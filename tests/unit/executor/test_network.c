#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/executor/testbed.h"

static bool forwarding_is_on(void)
{
    char c = '?';
    int fd = open("/proc/sys/net/ipv4/ip_forward", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(read(fd, &c, 1), 1);
    close(fd);
    return c == '1';
}

START_TEST(allow_public_reaches_public_addresses_only)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    testbed_listen(&t, t.outside[0], INADDR_ANY, 443);
    testbed_listen(&t, t.outside[1], INADDR_ANY, 443);
    testbed_listen(&t, t.host, INADDR_ANY, 22);
    struct network_link *link = testbed_attach(
        &t, 0, (struct network_policy){.default_action = NETWORK_ACTION_ALLOW_PUBLIC});

    assert_connects(&t, t.sandbox[0], PUBLIC_HOST, 443);
    assert_refused(&t, t.sandbox[0], PRIVATE_HOST, 443);
    ck_assert_int_eq(testbed_try_udp(&t, t.sandbox[0], PRIVATE_HOST, 53), EHOSTUNREACH);
    assert_refused(&t, t.sandbox[0], IP(169, 254, 169, 254), 80);
    assert_refused(&t, t.sandbox[0], PUBLIC_GATEWAY, 22); /* the host, by a public address */
    assert_refused(&t, t.sandbox[0], network_link_addresses(link).gateway, 22);
    assert_refused(&t, t.sandbox[0], network_service_address(t.net), 22);
    network_release(link);
    testbed_close(&t);
}
END_TEST

START_TEST(deny_beats_allow_and_ports_narrow_a_rule)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    testbed_listen(&t, t.outside[0], INADDR_ANY, 443);
    testbed_listen(&t, t.outside[0], INADDR_ANY, 80);
    testbed_listen(&t, t.outside[1], INADDR_ANY, 443);
    testbed_listen(&t, t.outside[1], INADDR_ANY, 80);
    /* Overlapping on purpose: nftables refuses that, so the step has to join them. */
    struct network_cidr wide[] = {cidr(PUBLIC_HOST, 24), cidr(PUBLIC_HOST, 32),
                                  cidr(IP(192, 168, 0, 0), 16)};
    struct network_cidr narrow[] = {cidr(PRIVATE_HOST, 32)};
    uint16_t web[] = {443, 80, 443}, plain[] = {80};
    struct network_rule rules[] = {{NETWORK_ACTION_ALLOW, wide, 3, web, 3},
                                   {NETWORK_ACTION_DENY, narrow, 1, plain, 1}};
    struct network_link *link = testbed_attach(&t, 0,
                                               (struct network_policy){
                                                   .default_action = NETWORK_ACTION_DENY,
                                                   .rules = rules,
                                                   .rule_count = COUNT(rules),
                                               });

    assert_connects(&t, t.sandbox[0], PUBLIC_HOST, 443);
    assert_connects(&t, t.sandbox[0], PUBLIC_HOST, 80);
    assert_refused(&t, t.sandbox[0], PUBLIC_HOST, 8080);
    assert_connects(&t, t.sandbox[0], PRIVATE_HOST, 443);
    assert_refused(&t, t.sandbox[0], PRIVATE_HOST, 80);
    assert_refused(&t, t.sandbox[0], IP(9, 9, 9, 9), 443);
    network_release(link);
    testbed_close(&t);
}
END_TEST

START_TEST(allow_rule_does_not_open_protected_ranges)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    testbed_listen(&t, t.host, INADDR_ANY, 22);
    struct network_cidr all[] = {cidr(0, 0)};
    struct network_rule rules[] = {{NETWORK_ACTION_ALLOW, all, 1, NULL, 0}};
    struct network_policy policy = {
        .default_action = NETWORK_ACTION_DENY, .rules = rules, .rule_count = 1};
    struct network_link *a = testbed_attach(&t, 0, policy), *b = testbed_attach(&t, 1, policy);
    uint32_t neighbour = network_link_addresses(b).sandbox;
    testbed_listen(&t, t.sandbox[1], INADDR_ANY, 8000);

    assert_refused(&t, t.sandbox[0], neighbour, 8000);
    assert_refused(&t, t.sandbox[0], PUBLIC_GATEWAY, 22);
    assert_refused(&t, t.sandbox[0], network_link_addresses(a).gateway, 22);
    assert_refused(&t, t.host, neighbour, 8000); /* nor does the host come in */
    network_release(a);
    network_release(b);
    testbed_close(&t);
}
END_TEST

START_TEST(loopback_port_of_the_host_is_reached_when_listed)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    testbed_listen(&t, t.host, INADDR_LOOPBACK, 5000);
    testbed_listen(&t, t.host, INADDR_LOOPBACK, 5001);
    uint16_t ports[] = {5000};
    struct network_policy with = {
        .default_action = NETWORK_ACTION_DENY, .loopback_ports = ports, .loopback_port_count = 1};
    struct network_link *a = testbed_attach(&t, 0, with);
    struct network_link *b =
        testbed_attach(&t, 1, (struct network_policy){.default_action = NETWORK_ACTION_DENY});
    uint32_t service = network_service_address(t.net);

    assert_refused(&t, t.sandbox[1], service, 5000);
    assert_refused(&t, t.sandbox[0], service, 5001);
    assert_refused(&t, t.sandbox[0], network_link_addresses(a).gateway, 5000);
    assert_connects(&t, t.sandbox[0], service, 5000);
    network_release(a);
    assert_refused(&t, t.sandbox[0], service, 5000);
    network_release(b);
    testbed_close(&t);
}
END_TEST

START_TEST(resolver_is_reachable_under_allow_public_only)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    struct network_config config = testbed_config();
    config.resolvers[0] = PRIVATE_HOST;
    config.resolver_count = 1;
    testbed_open(&t, config);
    testbed_listen(&t, t.outside[1], INADDR_ANY, 53);
    testbed_listen(&t, t.outside[1], INADDR_ANY, 54);
    struct network_link *a = testbed_attach(
        &t, 0, (struct network_policy){.default_action = NETWORK_ACTION_ALLOW_PUBLIC});
    struct network_link *b =
        testbed_attach(&t, 1, (struct network_policy){.default_action = NETWORK_ACTION_DENY});

    assert_connects(&t, t.sandbox[0], PRIVATE_HOST, 53);
    assert_refused(&t, t.sandbox[0], PRIVATE_HOST, 54);
    assert_refused(&t, t.sandbox[1], PRIVATE_HOST, 53);
    network_release(a);
    network_release(b);
    testbed_close(&t);
}
END_TEST

START_TEST(prepared_and_released_links_are_refused_everything)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    testbed_listen(&t, t.outside[0], INADDR_ANY, 443);
    struct network_link *link;
    struct network_policy policy = {.mode = NETWORK_MODE_RULES,
                                    .default_action = NETWORK_ACTION_ALLOW_PUBLIC};
    ck_assert_int_eq(network_prepare(t.net, t.sandbox[0], &link, &t.err), 0);
    /* Not asked how fast: on Linux 6.1 the new interface may miss the first ARP request. */
    ck_assert_int_eq(testbed_try_tcp(&t, t.sandbox[0], PUBLIC_HOST, 443), ECONNREFUSED);
    ck_assert_int_eq(network_apply(link, &policy, &t.err), 0);
    assert_connects(&t, t.sandbox[0], PUBLIC_HOST, 443);
    network_release(link);
    assert_refused(&t, t.sandbox[0], PUBLIC_HOST, 443);
    testbed_close(&t);
}
END_TEST

START_TEST(addresses_are_given_out_again_after_the_namespace_is_gone)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    struct network_config config = testbed_config();
    config.range = IP(10, 77, 0, 0);
    config.range_prefix_length = 28; /* 3 slots and the service address */
    testbed_open(&t, config);
    struct network_policy policy = {.mode = NETWORK_MODE_RULES,
                                    .default_action = NETWORK_ACTION_ALLOW_PUBLIC};
    struct network_link *links[3], *more;
    int spaces[3];
    for (int i = 0; i < 3; i++) {
        spaces[i] = testbed_netns_make(t.host);
        ck_assert_int_eq(network_attach(t.net, spaces[i], &policy, &links[i], &t.err), 0);
    }
    ck_assert_int_eq(network_attach(t.net, t.sandbox[0], &policy, &more, &t.err),
                     -STATUS_RESOURCE_EXHAUSTED);
    uint32_t first = network_link_addresses(links[0]).sandbox;
    network_release(links[0]);
    ck_assert_int_eq(network_attach(t.net, t.sandbox[0], &policy, &more, &t.err),
                     -STATUS_RESOURCE_EXHAUSTED); /* its namespace lives */
    close(spaces[0]);
    int r = -1;
    for (int i = 0; i < 100 && r != 0; i++) {
        usleep(20000);
        r = network_attach(t.net, t.sandbox[0], &policy, &more, &t.err);
    }
    ck_assert_msg(r == 0, "%s", t.err.text);
    ck_assert_uint_eq(network_link_addresses(more).sandbox, first);
    network_release(more);
    for (int i = 1; i < 3; i++) {
        network_release(links[i]);
        close(spaces[i]);
    }
    testbed_close(&t);
}
END_TEST

START_TEST(forwarding_is_put_back_at_close_and_after_a_crash)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    ck_assert(!forwarding_is_on());
    network_close(t.net);
    pid_t child = fork(); /* dies without closing anything */
    if (child == 0) {
        struct network_config config = testbed_config();
        struct network_policy policy = {.mode = NETWORK_MODE_RULES,
                                        .default_action = NETWORK_ACTION_ALLOW_PUBLIC};
        struct network_link *link;
        _exit(network_open(&config, &t.net, &t.err) == 0 &&
                      network_attach(t.net, t.sandbox[0], &policy, &link, &t.err) == 0
                  ? 0
                  : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(forwarding_is_on());
    ck_assert_int_eq(system("nft list tables | grep -q cordium-unit-test"), 0);

    struct network_config config = testbed_config();
    ck_assert_msg(network_open(&config, &t.net, &t.err) == 0, "%s", t.err.text);
    /* The leftover interface is gone, so the namespace can be wired anew. */
    struct network_link *link = testbed_attach(
        &t, 0, (struct network_policy){.default_action = NETWORK_ACTION_ALLOW_PUBLIC});
    testbed_listen(&t, t.outside[0], INADDR_ANY, 443);
    assert_connects(&t, t.sandbox[0], PUBLIC_HOST, 443);
    /* What is not a sandbox's is not forwarded, as before. */
    ck_assert_int_eq(testbed_try_tcp(&t, t.outside[1], PUBLIC_HOST, 443), ETIMEDOUT);
    network_release(link);
    network_close(t.net);
    t.net = NULL;
    ck_assert(!forwarding_is_on());
    ck_assert_int_ne(system("nft list tables | grep -q cordium-unit-test"), 0);
    testbed_close(&t);
}
END_TEST

START_TEST(forwarding_outlives_an_instance_that_another_needs_it_with)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    struct network_config second = {.instance = "second"}, idle = {.instance = "idle"};
    struct network *other = NULL, *unused = NULL;
    struct network_policy policy = {.mode = NETWORK_MODE_RULES,
                                    .default_action = NETWORK_ACTION_ALLOW_PUBLIC};
    struct network_link *link;
    ck_assert_int_eq(network_open(&second, &other, &t.err), 0);
    ck_assert_int_eq(network_open(&idle, &unused, &t.err), 0);
    network_release(testbed_attach(&t, 0, policy));
    ck_assert_int_eq(network_attach(other, t.sandbox[1], &policy, &link, &t.err), 0);
    testbed_listen(&t, t.outside[0], INADDR_ANY, 443);
    assert_connects(&t, t.sandbox[1], PUBLIC_HOST, 443); /* the first instance lets it pass */
    network_close(t.net);
    t.net = NULL;
    ck_assert(forwarding_is_on());
    assert_connects(&t, t.sandbox[1], PUBLIC_HOST, 443);
    network_release(link);
    network_close(other);
    ck_assert(!forwarding_is_on()); /* though an idle instance is left */
    network_close(unused);
    testbed_close(&t);
}
END_TEST

START_TEST(range_in_use_on_the_host_is_refused)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    struct network_config config = {
        .instance = "other", .range = IP(192, 168, 0, 0), .range_prefix_length = 16};
    struct network *other = NULL;
    ck_assert_int_eq(network_open(&config, &other, &t.err), -STATUS_FAILED_PRECONDITION);
    ck_assert_ptr_nonnull(strstr(t.err.text, "192.168.77.0/24 dev out1"));
    ck_assert_ptr_null(other);
    testbed_close(&t);
}
END_TEST

START_TEST(sandbox_has_no_ipv6_address)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    struct network_link *link = testbed_attach(
        &t, 0, (struct network_policy){.default_action = NETWORK_ACTION_ALLOW_PUBLIC});
    testbed_enter(t.sandbox[0]);
    char line[256];
    FILE *file = fopen("/proc/thread-self/net/if_inet6", "re");
    while (file && fgets(line, sizeof(line), file)) {
        ck_assert_msg(strstr(line, " lo\n") != NULL, "%s", line);
    }
    if (file) {
        fclose(file);
    }
    testbed_enter(t.host);
    network_release(link);
    testbed_close(&t);
}
END_TEST

START_TEST(largest_policy_is_accepted)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    struct network_cidr cidrs[NETWORK_CIDRS_MAX];
    uint16_t ports[NETWORK_PORTS_MAX];
    struct network_rule rules[NETWORK_RULES_MAX];
    for (unsigned i = 0; i < NETWORK_CIDRS_MAX; i++) {
        cidrs[i] = cidr(IP(201, 101, 200, 101) + i * 1024, 30);
        ports[i] = (uint16_t)(10001 + i * 2);
    }
    for (unsigned i = 0; i < NETWORK_RULES_MAX; i++) {
        rules[i] = (struct network_rule){NETWORK_ACTION_ALLOW, cidrs, NETWORK_CIDRS_MAX, ports,
                                         NETWORK_PORTS_MAX};
    }
    long start = testbed_now_ms();
    struct network_link *link = testbed_attach(&t, 0,
                                               (struct network_policy){
                                                   .default_action = NETWORK_ACTION_DENY,
                                                   .rules = rules,
                                                   .rule_count = NETWORK_RULES_MAX,
                                               });
    printf("network: largest policy %ld ms\n", testbed_now_ms() - start);
    network_release(link);
    testbed_close(&t);
}
END_TEST

START_TEST(wrong_policies_are_refused_with_the_rule_named)
{
    struct error err;
    struct network_cidr good = cidr(IP(1, 2, 3, 4), 32), long_prefix = cidr(0, 33);
    struct network_cidr mapped = {.family = 6, .prefix_length = 128};
    mapped.address[10] = mapped.address[11] = 0xff;
    uint16_t zero[] = {0};
    struct network_rule wrong[] = {
        {NETWORK_ACTION_ALLOW, &long_prefix, 1, NULL, 0},
        {NETWORK_ACTION_ALLOW, &mapped, 1, NULL, 0},
        {NETWORK_ACTION_ALLOW, &good, 0, NULL, 0},
        {NETWORK_ACTION_ALLOW, &good, 1, zero, 1},
        {NETWORK_ACTION_ALLOW_PUBLIC, &good, 1, NULL, 0},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct network_rule rules[] = {{NETWORK_ACTION_ALLOW, &good, 1, NULL, 0}, wrong[i]};
        struct network_policy policy = {.mode = NETWORK_MODE_RULES,
                                        .default_action = NETWORK_ACTION_DENY,
                                        .rules = rules,
                                        .rule_count = 2};
        ck_assert_int_eq(network_policy_check(&policy, &err), -STATUS_INVALID_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(err.text, "rule 2"));
    }
    struct network_policy no_default = {.mode = NETWORK_MODE_RULES};
    ck_assert_int_eq(network_policy_check(&no_default, &err), -STATUS_INVALID_ARGUMENT);
}
END_TEST

START_TEST(policy_that_lets_nothing_pass_needs_no_link)
{
    struct network_cidr any = cidr(0, 0);
    struct network_rule deny = {NETWORK_ACTION_DENY, &any, 1, NULL, 0};
    struct network_rule allow = {NETWORK_ACTION_ALLOW, &any, 1, NULL, 0};
    struct network_policy p = {.mode = NETWORK_MODE_RULES, .default_action = NETWORK_ACTION_DENY};

    ck_assert(!network_policy_needs_link(&p));
    p.rules = &deny;
    p.rule_count = 1;
    ck_assert(!network_policy_needs_link(&p));
    p.rules = &allow;
    ck_assert(network_policy_needs_link(&p));
    p.mode = NETWORK_MODE_NONE;
    ck_assert(!network_policy_needs_link(&p));
}
END_TEST

Suite *suite_network(void);

Suite *suite_network(void)
{
    Suite *s = suite_create("network");
    TCase *c = tcase_create("network");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, allow_public_reaches_public_addresses_only);
    tcase_add_test(c, deny_beats_allow_and_ports_narrow_a_rule);
    tcase_add_test(c, allow_rule_does_not_open_protected_ranges);
    tcase_add_test(c, loopback_port_of_the_host_is_reached_when_listed);
    tcase_add_test(c, resolver_is_reachable_under_allow_public_only);
    tcase_add_test(c, prepared_and_released_links_are_refused_everything);
    tcase_add_test(c, addresses_are_given_out_again_after_the_namespace_is_gone);
    tcase_add_test(c, forwarding_is_put_back_at_close_and_after_a_crash);
    tcase_add_test(c, forwarding_outlives_an_instance_that_another_needs_it_with);
    tcase_add_test(c, range_in_use_on_the_host_is_refused);
    tcase_add_test(c, sandbox_has_no_ipv6_address);
    tcase_add_test(c, largest_policy_is_accepted);
    tcase_add_test(c, wrong_policies_are_refused_with_the_rule_named);
    tcase_add_test(c, policy_that_lets_nothing_pass_needs_no_link);
    suite_add_tcase(s, c);
    return s;
}
