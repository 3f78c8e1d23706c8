#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/edge/http1_reader.h"

/* What a request reads as, fed in pieces of a given size: "HEAD;BODY…;END;" or "BAD 400;". */
static void read_in_pieces(const char *text, size_t len, size_t piece, struct buf *out)
{
    struct http1_reader r;
    struct http1_head *head = malloc(sizeof *head);
    struct str body;
    struct buf in;
    buf_init(&in, 1 << 20);
    http1_reader_init(&r);
    buf_clear(out);
    for (size_t at = 0; at < len; at += piece) {
        buf_add(&in, text + at, len - at < piece ? len - at : piece);
        struct bytes cursor = bytes_over(in.ptr, in.len);
        enum http1_event event;
        while ((event = http1_reader_next(&r, &cursor, head, &body)) != HTTP1_NEED_MORE) {
            if (event == HTTP1_HEAD) {
                buf_printf(out, "%.*s %.*s;", STR_ARG(head->method), STR_ARG(head->target));
            } else if (event == HTTP1_BODY) {
                buf_add_str(out, body);
            } else if (event == HTTP1_END) {
                buf_add_cstr(out, ";END;");
            } else {
                buf_printf(out, "BAD %d;", r.error_status);
                buf_free(&in);
                free(head);
                return;
            }
        }
        buf_consume(&in, in.len - bytes_left(&cursor));
    }
    buf_free(&in);
    free(head);
}

static void expect(const char *text, const char *want)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    size_t len = strlen(text);
    for (size_t piece = 1; piece <= len; piece = piece < 8 ? piece + 1 : piece * 2) {
        read_in_pieces(text, len, piece, &out);
        buf_add_u8(&out, 0);
        ck_assert_str_eq((const char *)out.ptr, want);
    }
    read_in_pieces(text, len, len, &out);
    buf_add_u8(&out, 0);
    ck_assert_str_eq((const char *)out.ptr, want);
    buf_free(&out);
}

START_TEST(request_without_body_is_head_and_end)
{
    expect("GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a?b;;END;");
}
END_TEST

START_TEST(length_delimits_the_body_and_the_next_request_follows)
{
    expect("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcGET /n HTTP/1.1\r\nhost: "
           "x\r\n\r\n",
           "POST /;abc;END;GET /n;;END;");
}
END_TEST

START_TEST(chunks_are_joined_and_trailers_dropped)
{
    expect("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
           "3\r\nabc\r\n02;ext=\"v\"\r\nde\r\n0\r\nTrailer: v\r\n\r\nGET / HTTP/1.1\r\nhost: "
           "x\r\n\r\n",
           "POST /;abcde;END;GET /;;END;");
}
END_TEST

START_TEST(both_framings_are_refused)
{
    expect("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
           "BAD 400;");
}
END_TEST

START_TEST(ambiguous_lengths_are_refused)
{
    static const char *const lengths[] = {"+3", "-3", "3,3", "3 3", "0x3", "", "9999999999999"};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct buf text;
        buf_init(&text, 4096);
        buf_printf(&text, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %s\r\n\r\n", lengths[i]);
        buf_add_u8(&text, 0);
        expect((const char *)text.ptr, "BAD 400;");
        buf_free(&text);
    }
}
END_TEST

START_TEST(bare_line_ends_are_refused)
{
    expect("GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n", "BAD 400;");
    expect("GET / HTTP/1.1\r\nHost: x\r\nX: a\rb\r\n\r\n", "BAD 400;");
    expect("GET / HTTP/1.1\nHost: x\n\n", "BAD 400;");
}
END_TEST

START_TEST(chunk_errors_are_refused)
{
#define CHUNKED "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    expect(CHUNKED "g\r\n", "POST /;BAD 400;");
    expect(CHUNKED "3 \r\n", "POST /;BAD 400;");
    expect(CHUNKED "100000000\r\n", "POST /;BAD 400;");
    expect(CHUNKED "1\na\r\n", "POST /;BAD 400;");
    expect(CHUNKED "1\r\naX\r\n", "POST /;aBAD 400;");
    expect(CHUNKED "0\r\nno colon\r\n\r\n", "POST /;BAD 400;");
#undef CHUNKED
}
END_TEST

START_TEST(other_versions_are_505)
{
    expect("GET / HTTP/2.0\r\nHost: x\r\n\r\n", "BAD 505;");
    expect("GET / HTTP/1.1 \r\nHost: x\r\n\r\n", "BAD 505;");
    expect("GET /\r\n\r\n", "BAD 400;");
}
END_TEST

START_TEST(head_over_the_limit_is_431)
{
    struct buf text;
    struct buf out;
    buf_init(&text, 1 << 20);
    buf_init(&out, 1 << 20);
    buf_add_cstr(&text, "GET / HTTP/1.1\r\nHost: x\r\nX: ");
    memset(buf_reserve(&text, 20000), 'a', 20000);
    text.len += 20000;
    read_in_pieces((const char *)text.ptr, text.len, 4096, &out);
    ck_assert(str_is(buf_str(&out), "BAD 431;"));
    buf_free(&text);
    buf_free(&out);
}
END_TEST

START_TEST(hosts_must_be_one)
{
    expect("GET / HTTP/1.1\r\n\r\n", "BAD 400;");
    expect("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", "BAD 400;");
    expect("GET / HTTP/1.0\r\n\r\n", "GET /;;END;");
}
END_TEST

Suite *suite_http1_reader(void);

Suite *suite_http1_reader(void)
{
    Suite *s = suite_create("http1_reader");
    TCase *t = tcase_create("core");
    tcase_add_test(t, request_without_body_is_head_and_end);
    tcase_add_test(t, length_delimits_the_body_and_the_next_request_follows);
    tcase_add_test(t, chunks_are_joined_and_trailers_dropped);
    tcase_add_test(t, both_framings_are_refused);
    tcase_add_test(t, ambiguous_lengths_are_refused);
    tcase_add_test(t, bare_line_ends_are_refused);
    tcase_add_test(t, chunk_errors_are_refused);
    tcase_add_test(t, other_versions_are_505);
    tcase_add_test(t, head_over_the_limit_is_431);
    tcase_add_test(t, hosts_must_be_one);
    suite_add_tcase(s, t);
    return s;
}
