#include <check.h>

#include "executor/ipc/message.h"

Suite *suite_messages(void);

static const uint16_t requests[] = {
#define REQUEST(name, number, ...) (number),
#include "executor/ipc/messages.def"
};

static struct message_header header_of(uint16_t type)
{
    return (struct message_header){.type = type, .call = 1};
}

START_TEST(each_request_is_allowed_at_its_bounds_and_not_beyond)
{
    const struct message_rule *rule = message_rule_find(requests[_i]);
    struct message_header h = header_of(rule->type);
    ck_assert(message_is_allowed(&h, rule->state, rule->body_min, rule->fds_min));
    ck_assert(message_is_allowed(&h, rule->state, rule->body_max, rule->fds_max));
    ck_assert(!message_is_allowed(&h, rule->state, rule->body_min - 1, rule->fds_min));
    ck_assert(!message_is_allowed(&h, rule->state, rule->body_max + 1, rule->fds_min));
    ck_assert(!message_is_allowed(&h, rule->state, 0, rule->fds_min));
}
END_TEST

START_TEST(each_request_is_refused_in_the_other_state)
{
    const struct message_rule *rule = message_rule_find(requests[_i]);
    struct message_header h = header_of(rule->type);
    enum message_state other =
        rule->state == MESSAGE_STATE_NEW ? MESSAGE_STATE_READY : MESSAGE_STATE_NEW;
    ck_assert(!message_is_allowed(&h, other, rule->body_min, rule->fds_min));
}
END_TEST

START_TEST(each_request_refuses_descriptors_that_are_not_its_own)
{
    const struct message_rule *rule = message_rule_find(requests[_i]);
    struct message_header h = header_of(rule->type);
    for (uint32_t fds = 0; fds < 8; fds++) {
        bool is_right = fds == rule->fds_min || fds == rule->fds_max;
        ck_assert(message_is_allowed(&h, rule->state, rule->body_min, fds) == is_right);
    }
}
END_TEST

START_TEST(only_long_requests_may_come_in_a_memfd)
{
    const struct message_rule *rule = message_rule_find(requests[_i]);
    struct message_header h = header_of(rule->type);
    h.flags = MESSAGE_FLAG_BODY_IN_MEMFD;
    ck_assert(message_is_allowed(&h, rule->state, 0, rule->fds_min + 1) == (rule->memfd_max > 0));
    ck_assert(!message_is_allowed(&h, rule->state, 0, 0));
    ck_assert(!message_is_allowed(&h, rule->state, rule->body_min, rule->fds_min + 1));
    h.flags = 2;
    ck_assert(!message_is_allowed(&h, rule->state, rule->body_min, rule->fds_min));
}
END_TEST

START_TEST(call_zero_and_unknown_types_are_refused)
{
    struct message_header h = header_of(MESSAGE_HELLO);
    h.call = 0;
    ck_assert(!message_is_allowed(&h, MESSAGE_STATE_NEW, 8, 0));
    for (uint32_t type = 0; type < 65536; type++) {
        bool is_known = false;
        for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
            is_known |= requests[i] == type;
        }
        ck_assert((message_rule_find((uint16_t)type) != NULL) == is_known);
    }
}
END_TEST

START_TEST(events_have_bounds_too)
{
    ck_assert(message_event_is_allowed(MESSAGE_RUN_EXITED, 128));
    ck_assert(!message_event_is_allowed(MESSAGE_RUN_EXITED, 127));
    ck_assert(!message_event_is_allowed(MESSAGE_RUN_EXITED, 129));
    ck_assert(!message_event_is_allowed(MESSAGE_REPLY, 3));
    ck_assert(!message_event_is_allowed(MESSAGE_HELLO, 8));
}
END_TEST

START_TEST(header_survives_the_wire)
{
    uint8_t bytes[MESSAGE_HEADER_BYTES];
    message_header_write(bytes, (struct message_header){0x8001, 1, 0xfedcba98});
    struct message_header h = message_header_read(bytes);
    ck_assert_uint_eq(h.type, 0x8001);
    ck_assert_uint_eq(h.flags, 1);
    ck_assert_uint_eq(h.call, 0xfedcba98);
}
END_TEST

Suite *suite_messages(void)
{
    Suite *s = suite_create("executor messages");
    TCase *t = tcase_create("table");
    int n = sizeof requests / sizeof *requests;
    tcase_add_loop_test(t, each_request_is_allowed_at_its_bounds_and_not_beyond, 0, n);
    tcase_add_loop_test(t, each_request_is_refused_in_the_other_state, 0, n);
    tcase_add_loop_test(t, each_request_refuses_descriptors_that_are_not_its_own, 0, n);
    tcase_add_loop_test(t, only_long_requests_may_come_in_a_memfd, 0, n);
    tcase_add_test(t, call_zero_and_unknown_types_are_refused);
    tcase_add_test(t, events_have_bounds_too);
    tcase_add_test(t, header_survives_the_wire);
    suite_add_tcase(s, t);
    return s;
}
