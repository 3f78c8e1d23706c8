#include "gateway/http_client.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "policy/base/bytes.h"

enum { CONNECT_TIMEOUT_MAX_MS = 10000 };

struct http_client {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    struct http_exchange *exchanges;
    struct watch *watches;
    bool is_freed;
};

/* A socket of libcurl's on the loop. Its own allocation: closing ends in a later round. */
struct watch {
    uv_poll_t poll;
    struct http_client *client;
    struct watch *next;
    struct watch *prev;
    curl_socket_t socket;
};

struct http_exchange {
    struct http_client *client;
    struct http_exchange *next;
    struct http_exchange *prev;
    CURL *easy;
    struct curl_slist *headers;
    struct buf answer;
    char error[CURL_ERROR_SIZE];
    void (*done)(void *arg, const struct http_answer *answer);
    void *arg;
};

/* ---- exchanges ---- */

static void exchange_free(struct http_exchange *x)
{
    if (x->next) {
        x->next->prev = x->prev;
    }
    if (x->prev) {
        x->prev->next = x->next;
    } else if (x->client->exchanges == x) {
        x->client->exchanges = x->next;
    }
    if (x->easy) {
        (void)curl_multi_remove_handle(x->client->multi, x->easy);
        curl_easy_cleanup(x->easy);
    }
    curl_slist_free_all(x->headers);
    buf_free(&x->answer);
    free(x);
}

void http_exchange_cancel(struct http_exchange *exchange)
{
    exchange_free(exchange);
}

static void finish(struct http_exchange *x, CURLcode result)
{
    struct http_answer answer = {.error = ""};
    long status = 0;
    curl_off_t retry_after_s = 0;
    if (result == CURLE_OK) {
        (void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
        (void)curl_easy_getinfo(x->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
        answer.status = (int)status;
        answer.retry_after_ms = retry_after_s > 0 ? (uint64_t)retry_after_s * 1000 : 0;
        answer.body = status / 100 == 2 ? buf_str(&x->answer) : STR_NONE;
    } else {
        answer.error = x->error[0] ? x->error : curl_easy_strerror(result);
    }
    x->done(x->arg, &answer);
    exchange_free(x);
}

/* done() may begin or cancel other exchanges, so the list of messages is asked anew each time. */
static void take_finished(struct http_client *client)
{
    CURLMsg *message;
    int left;
    while (!client->is_freed && (message = curl_multi_info_read(client->multi, &left))) {
        void *private = NULL;
        if (message->msg == CURLMSG_DONE &&
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private) == CURLE_OK) {
            finish(private, message->data.result);
        }
    }
}

/* Takes all, keeps the beginning: a receiver that talks much is no reason to send again. */
static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct http_exchange *x = arg;
    size_t n = size * count;
    size_t room = HTTP_ANSWER_MAX_BYTES - x->answer.len;
    buf_add(&x->answer, data, n < room ? n : room);
    return n;
}

/* ---- the loop ---- */

static void act(struct http_client *client, curl_socket_t socket, int events)
{
    int running;
    (void)curl_multi_socket_action(client->multi, socket, events, &running);
    take_finished(client);
}

static void on_timer(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timer_wanted(CURLM *multi, long timeout_ms, void *arg)
{
    (void)multi;
    struct http_client *client = arg;
    if (client->is_freed) {
        return 0;
    }
    if (timeout_ms < 0) {
        (void)uv_timer_stop(&client->timer);
    } else {
        (void)uv_timer_start(&client->timer, on_timer, (uint64_t)timeout_ms, 0);
    }
    return 0;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct watch *w = poll->data;
    int what = status < 0 ? CURL_CSELECT_ERR : 0;
    what |= events & UV_READABLE ? CURL_CSELECT_IN : 0;
    what |= events & UV_WRITABLE ? CURL_CSELECT_OUT : 0;
    act(w->client, w->socket, what);
}

static void on_watch_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void watch_end(struct watch *w)
{
    if (w->next) {
        w->next->prev = w->prev;
    }
    if (w->prev) {
        w->prev->next = w->next;
    } else {
        w->client->watches = w->next;
    }
    uv_close((uv_handle_t *)&w->poll, on_watch_closed);
}

static struct watch *watch_begin(struct http_client *client, curl_socket_t socket)
{
    struct watch *w = calloc(1, sizeof *w);
    if (!w || uv_poll_init_socket(client->loop, &w->poll, socket) < 0) {
        free(w);
        return NULL;
    }
    w->poll.data = w;
    w->client = client;
    w->socket = socket;
    w->next = client->watches;
    if (w->next) {
        w->next->prev = w;
    }
    client->watches = w;
    uv_unref((uv_handle_t *)&w->poll);
    return w;
}

static int on_socket_wanted(CURL *easy, curl_socket_t socket, int what, void *arg, void *assigned)
{
    (void)easy;
    struct http_client *client = arg;
    struct watch *w = assigned;
    if (what == CURL_POLL_REMOVE) {
        if (w) {
            (void)curl_multi_assign(client->multi, socket, NULL);
            watch_end(w);
        }
        return 0;
    }
    if (!w) {
        w = watch_begin(client, socket);
        if (!w) {
            return -1; /* libcurl ends the exchanges with an error */
        }
        (void)curl_multi_assign(client->multi, socket, w);
    }
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    return uv_poll_start(&w->poll, events, on_ready) < 0 ? -1 : 0;
}

/* ---- life ---- */

int http_client_new(struct uv_loop_s *loop, struct http_client **ret, struct error *err)
{
    struct http_client *client = calloc(1, sizeof *client);
    /* Counts its calls; needed before the first thread. */
    if (!client || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        free(client);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "start the HTTP client: out of memory");
    }
    client->loop = loop;
    client->multi = curl_multi_init();
    if (!client->multi) {
        curl_global_cleanup();
        free(client);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "start the HTTP client: out of memory");
    }
    (void)uv_timer_init(loop, &client->timer); /* cannot fail */
    client->timer.data = client;
    uv_unref((uv_handle_t *)&client->timer);
    (void)curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
    (void)curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
    (void)curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted);
    (void)curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
    *ret = client;
    return 0;
}

static void on_client_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void http_client_free(struct http_client *client)
{
    if (!client) {
        return;
    }
    client->is_freed = true;
    while (client->exchanges) {
        exchange_free(client->exchanges);
    }
    (void)curl_multi_cleanup(client->multi); /* closes its sockets: their watches end */
    while (client->watches) {
        watch_end(client->watches);
    }
    curl_global_cleanup();
    uv_close((uv_handle_t *)&client->timer, on_client_closed);
}

static bool add_headers(struct http_exchange *x, const struct http_post *post)
{
    for (size_t i = 0; i < post->header_count; i++) {
        struct curl_slist *longer = curl_slist_append(x->headers, post->headers[i]);
        if (!longer) {
            return false;
        }
        x->headers = longer;
    }
    /* No "100 continue" before large bodies: it costs a round trip, and receivers differ. */
    struct curl_slist *longer = curl_slist_append(x->headers, "Expect:");
    x->headers = longer ? longer : x->headers;
    return longer != NULL;
}

#define SET(option, value) (rc = rc ? rc : curl_easy_setopt(x->easy, option, value))

static CURLcode set_options(struct http_exchange *x, const struct http_post *post)
{
    long timeout_ms = (long)post->timeout_ms;
    CURLcode rc = CURLE_OK;
    SET(CURLOPT_URL, post->url);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_HTTPHEADER, x->headers);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->body.len);
    SET(CURLOPT_POSTFIELDS, post->body.ptr);
    SET(CURLOPT_NOSIGNAL, 1L);
    /* A look-up of a name that takes too long is left to itself; the loop must not wait for it. */
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_TIMEOUT_MS, timeout_ms);
    SET(CURLOPT_CONNECTTIMEOUT_MS,
        timeout_ms < CONNECT_TIMEOUT_MAX_MS ? timeout_ms : (long)CONNECT_TIMEOUT_MAX_MS);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_ERRORBUFFER, x->error);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, x);
    SET(CURLOPT_PRIVATE, x);
    if (post->ca_bundle) {
        SET(CURLOPT_CAINFO, post->ca_bundle);
        SET(CURLOPT_CAPATH, NULL); /* the host's folder must not add to it */
    }
    return rc;
}

#undef SET

int http_client_post(struct http_client *client, const struct http_post *post,
                     void (*done)(void *arg, const struct http_answer *answer), void *arg,
                     struct http_exchange **ret, struct error *err)
{
    struct http_exchange *x = calloc(1, sizeof *x);
    if (!x) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "send an HTTP request: out of memory");
    }
    x->client = client;
    x->done = done;
    x->arg = arg;
    buf_init(&x->answer, HTTP_ANSWER_MAX_BYTES);
    x->easy = curl_easy_init();
    CURLcode rc = x->easy && add_headers(x, post) ? set_options(x, post) : CURLE_OUT_OF_MEMORY;
    if (rc == CURLE_OK && curl_multi_add_handle(client->multi, x->easy) != CURLM_OK) {
        rc = CURLE_OUT_OF_MEMORY;
    }
    if (rc != CURLE_OK) {
        exchange_free(x);
        return error_set(
            err, rc == CURLE_OUT_OF_MEMORY ? STATUS_RESOURCE_EXHAUSTED : STATUS_INVALID_ARGUMENT,
            "send an HTTP request: %s", curl_easy_strerror(rc));
    }
    x->next = client->exchanges;
    if (x->next) {
        x->next->prev = x;
    }
    client->exchanges = x;
    *ret = x;
    return 0;
}
