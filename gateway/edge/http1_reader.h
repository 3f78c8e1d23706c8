#ifndef EDGE_HTTP1_READER_H
#define EDGE_HTTP1_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/base/bytes.h"
#include "policy/base/str.h"

/* A strict reader of HTTP/1.1 requests (RFC 9112). Where the RFC lets a recipient be lenient, two
 * programs in a row can disagree on where a request ends; so all such forms are refused: both
 * lengths, a list of lengths, line folding, a bare CR or LF, blanks before the colon, transfer
 * codings other than "chunked", absolute and asterisk targets. */

enum {
    HTTP1_HEAD_BYTES_MAX = 16384,
    HTTP1_HEADERS_MAX = 64,
    HTTP1_CHUNK_LINE_BYTES_MAX = 256,
    HTTP1_TRAILER_BYTES_MAX = 4096,
};

struct http1_field {
    struct str name; /* as sent: compare without case */
    struct str value;
};

/* Views of the input; valid until it moves. */
struct http1_head {
    struct str method;
    struct str target; /* begins with '/' */
    struct http1_field fields[HTTP1_HEADERS_MAX];
    size_t field_count;
    bool expects_continue;
    bool wants_close; /* HTTP/1.0, or "connection: close" */
    bool has_body;
};

enum http1_event {
    HTTP1_NEED_MORE, /* all input that can be understood was taken */
    HTTP1_HEAD,
    HTTP1_BODY, /* some bytes of the body */
    HTTP1_END,  /* the request is complete; the next one may follow */
    HTTP1_BAD,  /* see error_status; nothing more can be read */
};

struct http1_reader {
    unsigned state;
    bool is_chunked;
    uint64_t left_bytes;
    size_t scanned_bytes; /* of an incomplete head: not searched again */
    size_t trailer_bytes;
    unsigned blank_lines;
    int error_status; /* 400, 417, 431, 505 */
};

void http1_reader_init(struct http1_reader *r);

/* Takes the next piece of a request off the cursor. Between requests, call again after HTTP1_END.
 * A head must be contiguous: keep what is left of the input and append to it. */
enum http1_event http1_reader_next(struct http1_reader *r, struct bytes *in,
                                   struct http1_head *ret_head, struct str *ret_body);

/* Some bytes of a request have come, and not all. */
bool http1_reader_is_inside(const struct http1_reader *r, size_t unread_bytes);

#endif
