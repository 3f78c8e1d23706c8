#ifndef GATEWAY_HTTP_CLIENT_H
#define GATEWAY_HTTP_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "policy/base/status.h"
#include "policy/base/str.h"

/* HTTP requests that the gateway sends, on its loop, by libcurl. Nothing here waits: names are
 * resolved in a thread of libcurl's own. Connections are kept for the next request. Redirects are
 * not followed, cookies not kept, ~/.netrc and the environment's proxies not used. */
struct http_client;
struct http_exchange;
struct uv_loop_s;

enum { HTTP_ANSWER_MAX_BYTES = 64 * 1024, HTTP_HEADERS_MAX = 64 };

struct http_post {
    const char *url;            /* http or https */
    const char *const *headers; /* "Name: value"; content-length and host are made */
    size_t header_count;
    struct str body;       /* borrowed until the end of the exchange */
    const char *ca_bundle; /* PEM file; NULL: the host's */
    unsigned timeout_ms;   /* of all of it */
};

struct http_answer {
    int status;              /* 0: no answer came, see error */
    struct str body;         /* of an answer with 2xx; the first HTTP_ANSWER_MAX_BYTES */
    uint64_t retry_after_ms; /* of Retry-After, in either form; 0 when there was none */
    const char *error;       /* what went wrong, for a person; never holds a header */
};

/* Watches start with the first request. The handles are unreferenced: they alone keep no loop
 * running. */
int http_client_new(struct uv_loop_s *loop, struct http_client **ret, struct error *err);

/* Ends all exchanges without a word; the memory goes with a later round of the loop. NULL is fine.
 */
void http_client_free(struct http_client *client);

/* All but body is copied. done comes once, from the loop and never from inside this function,
 * unless the exchange is cancelled; what it gets lives until it returns. RESOURCE_EXHAUSTED, or
 * INVALID_ARGUMENT for a URL or header that libcurl does not take. */
int http_client_post(struct http_client *client, const struct http_post *post,
                     void (*done)(void *arg, const struct http_answer *answer), void *arg,
                     struct http_exchange **ret, struct error *err);

/* Not from inside done. */
void http_exchange_cancel(struct http_exchange *exchange);

#endif
