#include "gateway/edge/http1_reader.h"

#include <string.h>

#include "gateway/edge/header_text.h"

enum state {
    STATE_HEAD,
    STATE_BODY,
    STATE_CHUNK_SIZE,
    STATE_CHUNK_DATA,
    STATE_CHUNK_END,
    STATE_TRAILER,
    STATE_COMPLETE,
    STATE_BAD,
};

enum { BLANK_LINES_MAX = 2, LENGTH_DIGITS_MAX = 12, CHUNK_DIGITS_MAX = 8 };

void http1_reader_init(struct http1_reader *r)
{
    *r = (struct http1_reader){.state = STATE_HEAD};
}

bool http1_reader_is_inside(const struct http1_reader *r, size_t unread_bytes)
{
    return r->state != STATE_HEAD || unread_bytes > 0;
}

static enum http1_event bad(struct http1_reader *r, int status)
{
    r->state = STATE_BAD;
    r->error_status = status;
    return HTTP1_BAD;
}

/* Takes a line that ends in CRLF, without it. False when there is no LF yet; a line with
 * a bare LF, or a control character other than a tab, comes out with *ret_is_clean false. */
static bool take_line(struct bytes *in, struct str *ret, bool *ret_is_clean)
{
    const uint8_t *lf = bytes_left(in) > 0 ? memchr(in->next, '\n', bytes_left(in)) : NULL;
    if (!lf) {
        return false;
    }
    struct str line = str_make(in->next, (size_t)(lf - in->next));
    in->next = lf + 1;
    *ret_is_clean = line.len > 0 && line.ptr[line.len - 1] == '\r';
    line.len -= *ret_is_clean ? 1 : 0;
    for (size_t i = 0; i < line.len; i++) {
        uint8_t c = (uint8_t)line.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) {
            *ret_is_clean = false;
        }
    }
    *ret = line;
    return true;
}

static bool split_field(struct str line, struct http1_field *ret)
{
    const char *colon = line.len > 0 ? memchr(line.ptr, ':', line.len) : NULL;
    if (!colon) {
        return false;
    }
    size_t n = (size_t)(colon - line.ptr);
    ret->name = str_make(line.ptr, n);
    ret->value = header_text_trim(str_make(colon + 1, line.len - n - 1));
    return header_text_is_token(ret->name);
}

static int parse_request_line(struct str line, struct http1_head *head, bool *ret_is_1_0)
{
    const char *space = line.len > 0 ? memchr(line.ptr, ' ', line.len) : NULL;
    if (!space) {
        return 400;
    }
    head->method = str_make(line.ptr, (size_t)(space - line.ptr));
    struct str rest = str_make(space + 1, line.len - head->method.len - 1);
    space = rest.len > 0 ? memchr(rest.ptr, ' ', rest.len) : NULL;
    if (!space) {
        return 400;
    }
    head->target = str_make(rest.ptr, (size_t)(space - rest.ptr));
    struct str version = str_make(space + 1, rest.len - head->target.len - 1);
    if (!header_text_is_token(head->method) || head->target.len == 0 ||
        head->target.ptr[0] != '/') {
        return 400;
    }
    for (size_t i = 0; i < head->target.len; i++) {
        uint8_t c = (uint8_t)head->target.ptr[i];
        if (c < 0x21 || c > 0x7e) {
            return 400;
        }
    }
    *ret_is_1_0 = str_is(version, "HTTP/1.0");
    if (!*ret_is_1_0 && !str_is(version, "HTTP/1.1")) {
        return str_starts_with(version, STR("HTTP/")) ? 505 : 400;
    }
    return 0;
}

static bool parse_length(struct str s, uint64_t *ret)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') {
            return false;
        }
        v = v * 10 + (uint64_t)(s.ptr[i] - '0');
    }
    *ret = v;
    return s.len > 0 && s.len <= LENGTH_DIGITS_MAX;
}

/* What the fields say of the message's framing. */
struct framing {
    unsigned lengths;
    unsigned codings;
    unsigned hosts;
    uint64_t length;
};

static int apply_field(const struct http1_field *f, struct http1_head *head,
                       struct framing *framing)
{
    if (header_text_is_nocase(f->name, "content-length")) {
        framing->lengths++;
        return parse_length(f->value, &framing->length) ? 0 : 400;
    }
    if (header_text_is_nocase(f->name, "transfer-encoding")) {
        framing->codings++;
        return header_text_is_nocase(f->value, "chunked") ? 0 : 400;
    }
    if (header_text_is_nocase(f->name, "host")) {
        framing->hosts++;
        return memchr(f->value.ptr, ' ', f->value.len) ? 400 : 0;
    }
    if (header_text_is_nocase(f->name, "connection")) {
        head->wants_close = head->wants_close || header_text_list_has(f->value, "close");
        return 0;
    }
    if (header_text_is_nocase(f->name, "expect")) {
        head->expects_continue = header_text_is_nocase(f->value, "100-continue");
        return head->expects_continue ? 0 : 417;
    }
    return 0;
}

static int parse_fields(struct bytes *lines, struct http1_head *head, struct framing *framing)
{
    struct str line;
    bool is_clean;
    while (take_line(lines, &line, &is_clean)) {
        if (!is_clean) {
            return 400;
        }
        if (line.len == 0) {
            return 0;
        }
        if (head->field_count == HTTP1_HEADERS_MAX) {
            return 431;
        }
        struct http1_field *f = &head->fields[head->field_count];
        int status = split_field(line, f) ? apply_field(f, head, framing) : 400;
        if (status) {
            return status;
        }
        head->field_count++;
    }
    return 400;
}

static int parse_head(struct http1_reader *r, struct bytes lines, struct http1_head *head)
{
    struct str line;
    bool is_clean;
    bool is_1_0 = false;
    struct framing framing = {0};
    head->field_count = 0;
    head->expects_continue = false;
    if (!take_line(&lines, &line, &is_clean) || !is_clean) {
        return 400;
    }
    int status = parse_request_line(line, head, &is_1_0);
    head->wants_close = is_1_0;
    status = status ? status : parse_fields(&lines, head, &framing);
    if (status) {
        return status;
    }
    /* RFC 9112 §6.1, §6.3: one framing and one only. */
    if (framing.lengths + framing.codings > 1 || (is_1_0 && framing.codings > 0)) {
        return 400;
    }
    if (framing.hosts > 1 || (framing.hosts == 0 && !is_1_0)) {
        return 400;
    }
    r->is_chunked = framing.codings > 0;
    r->left_bytes = framing.length;
    head->has_body = r->is_chunked || framing.length > 0;
    return 0;
}

static enum http1_event read_head(struct http1_reader *r, struct bytes *in, struct http1_head *head)
{
    /* RFC 9112 §2.2: a client may have sent an empty line too much. */
    while (bytes_left(in) >= 2 && memcmp(in->next, "\r\n", 2) == 0) {
        if (++r->blank_lines > BLANK_LINES_MAX) {
            return bad(r, 400);
        }
        in->next += 2;
    }
    size_t left = bytes_left(in);
    if (left == 0) {
        return HTTP1_NEED_MORE;
    }
    size_t from = r->scanned_bytes > 3 && r->scanned_bytes <= left ? r->scanned_bytes - 3 : 0;
    const uint8_t *end = memmem(in->next + from, left - from, "\r\n\r\n", 4);
    if (!end) {
        r->scanned_bytes = left;
        /* Two LF in a row end the head for a lenient reader: say so now, not at the timeout. */
        bool is_lenient_end = memmem(in->next + from, left - from, "\n\n", 2);
        if (is_lenient_end) {
            return bad(r, 400);
        }
        return left > HTTP1_HEAD_BYTES_MAX ? bad(r, 431) : HTTP1_NEED_MORE;
    }
    size_t head_bytes = (size_t)(end - in->next) + 4;
    int status = head_bytes > HTTP1_HEAD_BYTES_MAX
                     ? 431
                     : parse_head(r, bytes_over(in->next, head_bytes), head);
    if (status) {
        return bad(r, status);
    }
    in->next += head_bytes;
    r->scanned_bytes = 0;
    r->blank_lines = 0;
    r->trailer_bytes = 0;
    r->state = r->is_chunked ? STATE_CHUNK_SIZE : head->has_body ? STATE_BODY : STATE_COMPLETE;
    return HTTP1_HEAD;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* False: bad. */
static bool parse_chunk_size(struct str line, uint64_t *ret)
{
    uint64_t v = 0;
    size_t i = 0;
    for (; i < line.len && hex_digit(line.ptr[i]) >= 0; i++) {
        v = v * 16 + (uint64_t)hex_digit(line.ptr[i]);
        if (i >= CHUNK_DIGITS_MAX) {
            return false;
        }
    }
    *ret = v;
    /* An extension may follow; none is understood, all are passed over. */
    return i > 0 && (i == line.len || line.ptr[i] == ';');
}

/* A line of the chunked coding; NEED_MORE leaves the cursor where it is. */
static enum http1_event read_chunk_size(struct http1_reader *r, struct bytes *in)
{
    struct bytes probe = *in;
    struct str line;
    bool is_clean;
    if (!take_line(&probe, &line, &is_clean)) {
        return bytes_left(in) > HTTP1_CHUNK_LINE_BYTES_MAX ? bad(r, 400) : HTTP1_NEED_MORE;
    }
    if (!is_clean || line.len > HTTP1_CHUNK_LINE_BYTES_MAX ||
        !parse_chunk_size(line, &r->left_bytes)) {
        return bad(r, 400);
    }
    *in = probe;
    r->state = r->left_bytes > 0 ? STATE_CHUNK_DATA : STATE_TRAILER;
    return HTTP1_BODY;
}

static enum http1_event read_chunk_end(struct http1_reader *r, struct bytes *in)
{
    if (bytes_left(in) < 2) {
        return bytes_left(in) == 1 && in->next[0] != '\r' ? bad(r, 400) : HTTP1_NEED_MORE;
    }
    if (memcmp(in->next, "\r\n", 2) != 0) {
        return bad(r, 400);
    }
    in->next += 2;
    r->state = STATE_CHUNK_SIZE;
    return HTTP1_BODY;
}

/* Trailer fields are checked and dropped: nothing here gives them a meaning. */
static enum http1_event read_trailer(struct http1_reader *r, struct bytes *in)
{
    struct bytes probe = *in;
    struct str line;
    bool is_clean;
    if (!take_line(&probe, &line, &is_clean)) {
        return bytes_left(in) > HTTP1_TRAILER_BYTES_MAX ? bad(r, 431) : HTTP1_NEED_MORE;
    }
    struct http1_field unused;
    if (!is_clean || (line.len > 0 && !split_field(line, &unused))) {
        return bad(r, 400);
    }
    r->trailer_bytes += line.len + 2;
    if (r->trailer_bytes > HTTP1_TRAILER_BYTES_MAX) {
        return bad(r, 431);
    }
    *in = probe;
    r->state = line.len == 0 ? STATE_COMPLETE : STATE_TRAILER;
    return HTTP1_BODY;
}

static enum http1_event read_body(struct http1_reader *r, struct bytes *in, struct str *ret)
{
    size_t n = bytes_left(in);
    if (n == 0) {
        return HTTP1_NEED_MORE;
    }
    n = n < r->left_bytes ? n : (size_t)r->left_bytes;
    (void)bytes_read_view(in, n, ret);
    r->left_bytes -= n;
    if (r->left_bytes == 0) {
        r->state = r->is_chunked ? STATE_CHUNK_END : STATE_COMPLETE;
    }
    return HTTP1_BODY;
}

static enum http1_event step(struct http1_reader *r, struct bytes *in, struct http1_head *head,
                             struct str *body)
{
    switch ((enum state)r->state) {
    case STATE_HEAD:
        return read_head(r, in, head);
    case STATE_BODY:
    case STATE_CHUNK_DATA:
        return read_body(r, in, body);
    case STATE_CHUNK_SIZE:
        return read_chunk_size(r, in);
    case STATE_CHUNK_END:
        return read_chunk_end(r, in);
    case STATE_TRAILER:
        return read_trailer(r, in);
    case STATE_COMPLETE:
        r->state = STATE_HEAD;
        return HTTP1_END;
    case STATE_BAD:
        break;
    }
    return HTTP1_BAD;
}

enum http1_event http1_reader_next(struct http1_reader *r, struct bytes *in,
                                   struct http1_head *ret_head, struct str *ret_body)
{
    enum http1_event event;
    *ret_body = STR_NONE;
    /* Steps over the coding's own lines give an empty body: not worth an event. */
    do {
        event = step(r, in, ret_head, ret_body);
    } while (event == HTTP1_BODY && ret_body->len == 0);
    return event;
}
