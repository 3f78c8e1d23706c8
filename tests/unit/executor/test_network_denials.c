#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "executor/steps/network_denials.h"
#include "tests/unit/executor/testbed.h"

static struct network_denials take(struct testbed *t, struct network_link *link)
{
    struct network_denials d = {0};
    int r = network_collect_denials(t->net, &t->err);
    ck_assert_msg(r == 0, "%s", t->err.text);
    (void)network_take_denials(link, &d);
    return d;
}

static void assert_told(const struct network_denials *d, struct network_denial want)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct network_denial *e = &d->entries[i];
        if (e->address == want.address && e->port == want.port && e->protocol == want.protocol &&
            e->reason == want.reason) {
            ck_assert_uint_eq(e->packets, want.packets);
            return;
        }
    }
    ck_abort_msg("%08x:%u/%u was not told", want.address, want.port, want.protocol);
}

START_TEST(refused_destinations_are_told_once_and_with_the_reason)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    testbed_listen(&t, t.outside[0], INADDR_ANY, 443);
    struct network_cidr narrow[] = {cidr(PUBLIC_HOST, 32)};
    uint16_t plain[] = {80};
    struct network_rule rules[] = {{NETWORK_ACTION_DENY, narrow, 1, plain, 1}};
    struct network_link *a = testbed_attach(&t, 0,
                                            (struct network_policy){
                                                .default_action = NETWORK_ACTION_ALLOW_PUBLIC,
                                                .rules = rules,
                                                .rule_count = 1,
                                            });
    struct network_link *b =
        testbed_attach(&t, 1, (struct network_policy){.default_action = NETWORK_ACTION_DENY});
    uint32_t gateway = network_link_addresses(a).gateway;
    uint32_t neighbour = network_link_addresses(b).sandbox;

    assert_connects(&t, t.sandbox[0], PUBLIC_HOST, 443);
    assert_refused(&t, t.sandbox[0], PUBLIC_HOST, 80);
    assert_refused(&t, t.sandbox[0], PUBLIC_HOST, 80);
    assert_refused(&t, t.sandbox[0], PRIVATE_HOST, 443);
    ck_assert_int_eq(testbed_try_udp(&t, t.sandbox[0], PRIVATE_HOST, 53), EHOSTUNREACH);
    assert_refused(&t, t.sandbox[0], IP(169, 254, 169, 254), 80);
    assert_refused(&t, t.sandbox[0], gateway, 22);
    assert_refused(&t, t.sandbox[0], neighbour, 8000);
    assert_refused(&t, t.sandbox[1], PUBLIC_HOST, 443);
    struct network_denials d = take(&t, a), other = take(&t, b);

    ck_assert_uint_eq(d.count, 6);
    ck_assert_uint_eq(d.others, 0);
    assert_told(&d, (struct network_denial){PUBLIC_HOST, 80, IPPROTO_TCP, NETWORK_DENIAL_RULE, 2});
    assert_told(
        &d, (struct network_denial){PRIVATE_HOST, 443, IPPROTO_TCP, NETWORK_DENIAL_NON_PUBLIC, 1});
    assert_told(
        &d, (struct network_denial){PRIVATE_HOST, 53, IPPROTO_UDP, NETWORK_DENIAL_NON_PUBLIC, 1});
    assert_told(&d, (struct network_denial){IP(169, 254, 169, 254), 80, IPPROTO_TCP,
                                            NETWORK_DENIAL_PROTECTED, 1});
    assert_told(&d, (struct network_denial){gateway, 22, IPPROTO_TCP, NETWORK_DENIAL_PROTECTED, 1});
    assert_told(&d,
                (struct network_denial){neighbour, 8000, IPPROTO_TCP, NETWORK_DENIAL_PROTECTED, 1});
    ck_assert_uint_eq(other.count, 1);
    assert_told(&other,
                (struct network_denial){PUBLIC_HOST, 443, IPPROTO_TCP, NETWORK_DENIAL_DEFAULT, 1});

    d = take(&t, a);
    ck_assert_uint_eq(d.count + d.others, 0);
    assert_refused(&t, t.sandbox[0], PUBLIC_HOST, 80);
    d = take(&t, a);
    ck_assert_uint_eq(d.count, 1);
    assert_told(&d, (struct network_denial){PUBLIC_HOST, 80, IPPROTO_TCP, NETWORK_DENIAL_RULE, 1});
    network_release(a);
    network_release(b);
    testbed_close(&t);
}
END_TEST

static void scan_udp(struct testbed *t, int netns, uint32_t address, unsigned ports)
{
    int fd = testbed_socket(t, netns, SOCK_DGRAM);
    for (unsigned i = 1; i <= ports; i++) {
        struct sockaddr_in sa = {.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(address),
                                 .sin_port = htons((uint16_t)i)};
        /* An ICMP answer to an earlier one is told first, instead of sending. */
        while (sendto(fd, "x", 1, 0, (struct sockaddr *)&sa, sizeof(sa)) == -1) {
            ck_assert(errno == EHOSTUNREACH || errno == EAGAIN);
        }
    }
    close(fd);
}

START_TEST(port_scan_fills_a_bounded_set_and_the_rest_is_counted)
{
    enum { PORTS = 10000 };
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    struct network_link *link =
        testbed_attach(&t, 0, (struct network_policy){.default_action = NETWORK_ACTION_DENY});
    for (int round = 0; round < 2; round++) {
        scan_udp(&t, t.sandbox[0], PUBLIC_HOST, PORTS);
        struct network_denials d = take(&t, link);
        ck_assert_uint_eq(d.count, NETWORK_DENIALS_MAX);
        ck_assert_uint_eq(d.others, PORTS - NETWORK_DENIALS_MAX);
        for (size_t i = 0; i < d.count; i++) {
            ck_assert_uint_eq(d.entries[i].address, PUBLIC_HOST);
            ck_assert_uint_eq(d.entries[i].packets, 1);
            ck_assert_uint_le(d.entries[i].port, NETWORK_DENIALS_MAX); /* the first come */
        }
    }
    network_release(link);
    testbed_close(&t);
}
END_TEST

START_TEST(other_protocols_that_are_refused_are_counted)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    struct network_link *link =
        testbed_attach(&t, 0, (struct network_policy){.default_action = NETWORK_ACTION_DENY});
    const uint8_t echo[8] = {8, 0, 0xf7, 0xff}; /* ICMP, with its checksum */
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(PUBLIC_HOST)};
    testbed_enter(t.sandbox[0]);
    int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
    ck_assert_int_ne(fd, -1);
    ck_assert_int_eq(sendto(fd, echo, sizeof(echo), 0, (struct sockaddr *)&to, sizeof(to)),
                     sizeof(echo));
    close(fd);
    testbed_enter(t.host);
    struct network_denials d = take(&t, link);
    ck_assert_uint_eq(d.count, 0);
    ck_assert_uint_eq(d.others, 1);
    network_release(link);
    testbed_close(&t);
}
END_TEST

START_TEST(link_without_rules_has_no_denials_to_tell)
{
    struct testbed t;
    if (!testbed_can_run()) {
        return;
    }
    testbed_open(&t, testbed_config());
    struct network_link *link;
    ck_assert_int_eq(network_prepare(t.net, t.sandbox[0], &link, &t.err), 0);
    ck_assert_int_eq(testbed_try_tcp(&t, t.sandbox[0], PUBLIC_HOST, 443), ECONNREFUSED);
    struct network_denials d = take(&t, link);
    ck_assert_uint_eq(d.count + d.others, 0);
    network_release(link);
    testbed_close(&t);
}
END_TEST

struct notes {
    struct network_note list[4];
    size_t count;
};

static bool keep_note(void *context, const struct network_note *note)
{
    struct notes *notes = context;
    if (notes->count == COUNT(notes->list)) {
        return false;
    }
    notes->list[notes->count++] = *note;
    return true;
}

/* As Linux 6.18 answered the dump of a set with two elements. */
START_TEST(answer_of_the_kernel_is_read_whole_or_refused)
{
    char answer[1024];
    struct notes notes = {0};
    bool is_last = true;
    FILE *file = fopen("testdata/fuzz/network_notes/noted", "re");
    ck_assert_ptr_nonnull(file);
    size_t size = fread(answer, 1, sizeof(answer), file);
    fclose(file);

    ck_assert(network_notes_parse(answer, size, keep_note, &notes, &is_last));
    ck_assert(!is_last);
    ck_assert_uint_eq(notes.count, 2);
    const struct network_denial *d = &notes.list[0].denial;
    ck_assert_uint_eq(notes.list[0].interface, 1);
    ck_assert_uint_eq(d->address, IP(198, 51, 100, 7));
    ck_assert_uint_eq(d->port, 4444);
    ck_assert_uint_eq(d->protocol, IPPROTO_TCP);
    ck_assert_uint_eq(d->reason, NETWORK_DENIAL_DEFAULT);
    ck_assert_uint_eq(d->packets, 3);
    for (size_t cut = 1; cut < size; cut++) {
        notes.count = 0;
        ck_assert_msg(!network_notes_parse(answer, cut, keep_note, &notes, &is_last), "%zu", cut);
    }
}
END_TEST

START_TEST(denials_beyond_the_room_go_to_the_others)
{
    struct network_denials all = {0};
    struct network_denial d = {IP(198, 51, 100, 7), 0, IPPROTO_TCP, NETWORK_DENIAL_RULE, 2};
    for (uint16_t port = 1; port <= NETWORK_DENIALS_MAX + 5; port++) {
        d.port = port;
        network_denials_add(&all, &d);
    }
    d.port = 7;
    network_denials_add(&all, &d); /* there is an entry for it */
    network_denials_add(&all, &(struct network_denial){.packets = 3});
    ck_assert_uint_eq(all.count, NETWORK_DENIALS_MAX);
    ck_assert_uint_eq(all.others, 5 * 2 + 3);
    ck_assert_uint_eq(all.entries[6].packets, 4);
}
END_TEST

Suite *suite_network_denials(void);

Suite *suite_network_denials(void)
{
    Suite *s = suite_create("network denials");
    TCase *c = tcase_create("network denials");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, refused_destinations_are_told_once_and_with_the_reason);
    tcase_add_test(c, port_scan_fills_a_bounded_set_and_the_rest_is_counted);
    tcase_add_test(c, other_protocols_that_are_refused_are_counted);
    tcase_add_test(c, link_without_rules_has_no_denials_to_tell);
    tcase_add_test(c, answer_of_the_kernel_is_read_whole_or_refused);
    tcase_add_test(c, denials_beyond_the_room_go_to_the_others);
    suite_add_tcase(s, c);
    return s;
}
