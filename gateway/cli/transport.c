#include "gateway/cli/transport.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/rpc/codec.h"
#include "policy/base/bytes.h"

enum {
    FRAME_PREFIX_BYTES = 5,
    MESSAGE_MAX_BYTES = 64 * 1024 * 1024,
    UPLOAD_MAX_BYTES = 72 * 1024 * 1024,
    UPLOAD_HIGH_BYTES = 1024 * 1024, /* input is not read while so much waits to be sent */
    INPUT_CHUNK_BYTES = 32 * 1024,
    MESSAGE_ARENA_BYTES = 256 * 1024 * 1024,
    CONNECT_TIMEOUT_MS = 10000,
    POLL_TIMEOUT_MS = 1000,
    LAST_POLL_TIMEOUT_MS = 20,
};

struct transport {
    const struct transport_options *options;
    CURLM *multi;
    char *token_header; /* "x-octelium-auth: …" or NULL */
};

/* One call in flight. */
struct exchange {
    const struct schema_method *method;
    const struct transport_stream_handler *handler;
    struct transport *transport;
    CURL *easy;
    struct curl_slist *headers;
    struct buf upload;
    struct buf download;
    bool input_is_closed;
    bool is_paused;
    bool is_ended_by_us;
    bool has_grpc_status;
    int grpc_status;
    char grpc_message[ERROR_TEXT_MAX];
    long http_status;
    struct error error; /* of our own side */
    char curl_text[CURL_ERROR_SIZE];
};

int transport_new(const struct transport_options *options, struct transport **ret,
                  struct error *err)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
        return error_set(err, STATUS_INTERNAL, "cannot initialise libcurl");
    }
    struct transport *t = calloc(1, sizeof *t);
    CURLM *multi = curl_multi_init();
    if (!t || !multi) {
        free(t);
        curl_multi_cleanup(multi);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    t->options = options;
    t->multi = multi;
    *ret = t;
    return 0;
}

void transport_free(struct transport *t)
{
    if (!t) {
        return;
    }
    curl_multi_cleanup(t->multi);
    free(t->token_header);
    free(t);
    curl_global_cleanup();
}

int transport_set_token(struct transport *t, const char *header, const char *token,
                        struct error *err)
{
    free(t->token_header);
    t->token_header = NULL;
    if (!token) {
        return 0;
    }
    for (const char *p = token; *p; p++) {
        if (*p <= ' ' || *p > '~') {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "the token holds a character that no token has; copy it anew");
        }
    }
    if (asprintf(&t->token_header, "%s: %s", header, token) < 0) {
        t->token_header = NULL;
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    return 0;
}

static int add_frame(struct buf *out, const ProtobufCMessage *message, struct error *err)
{
    struct buf body;
    buf_init(&body, MESSAGE_MAX_BYTES);
    int status = codec_encode_wire(message, &body, err);
    if (status == 0) {
        uint8_t prefix[FRAME_PREFIX_BYTES] = {0, (uint8_t)(body.len >> 24),
                                              (uint8_t)(body.len >> 16), (uint8_t)(body.len >> 8),
                                              (uint8_t)body.len};
        buf_add(out, prefix, sizeof prefix);
        buf_add_str(out, buf_str(&body));
        if (out->failed) {
            status = error_set(err, STATUS_RESOURCE_EXHAUSTED, "too much data waits to be sent");
        }
    }
    buf_free(&body);
    return status;
}

static size_t on_upload(char *to, size_t size, size_t count, void *arg)
{
    struct exchange *x = arg;
    size_t room = size * count;
    if (x->upload.len == 0) {
        if (x->input_is_closed) {
            return 0;
        }
        x->is_paused = true;
        return CURL_READFUNC_PAUSE;
    }
    size_t n = x->upload.len < room ? x->upload.len : room;
    memcpy(to, x->upload.ptr, n);
    buf_consume(&x->upload, n);
    return n;
}

static bool deliver(struct exchange *x, struct str body)
{
    struct arena arena;
    arena_init(&arena, MESSAGE_ARENA_BYTES);
    ProtobufCMessage *message = NULL;
    bool goes_on = false;
    if (codec_decode_wire(x->method->response->descriptor, body, &arena, &message, &x->error) ==
        0) {
        goes_on = x->handler->on_message(x->handler->state, message);
    }
    arena_free(&arena);
    return goes_on;
}

static size_t on_download(char *data, size_t size, size_t count, void *arg)
{
    struct exchange *x = arg;
    size_t n = size * count;
    buf_add(&x->download, data, n);
    if (x->download.failed) {
        error_set(&x->error, STATUS_RESOURCE_EXHAUSTED, "the server's message is too large");
        return 0;
    }
    size_t done = 0;
    while (x->download.len - done >= FRAME_PREFIX_BYTES) {
        const uint8_t *p = x->download.ptr + done;
        size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
        if (p[0] != 0 || len > MESSAGE_MAX_BYTES) {
            error_set(&x->error, STATUS_INTERNAL, "the server's answer is not gRPC");
            return 0;
        }
        if (x->download.len - done < FRAME_PREFIX_BYTES + len) {
            break;
        }
        if (!deliver(x, str_make(p + FRAME_PREFIX_BYTES, len))) {
            x->is_ended_by_us = true;
            return 0;
        }
        done += FRAME_PREFIX_BYTES + len;
    }
    buf_consume(&x->download, done);
    return n;
}

static void percent_decode(struct str s, char *to, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len && n + 1 < room; i++) {
        unsigned byte;
        if (s.ptr[i] == '%' && i + 2 < s.len + 0 && sscanf(s.ptr + i + 1, "%2x", &byte) == 1) {
            to[n++] = (char)byte;
            i += 2;
        } else {
            to[n++] = s.ptr[i];
        }
    }
    to[n] = '\0';
}

/* Trailers arrive here too: libcurl does not mark those of HTTP/2. */
static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    struct exchange *x = arg;
    struct str line = str_make(data, size * count);
    const char *colon = line.len ? memchr(line.ptr, ':', line.len) : NULL;
    if (!colon) {
        return line.len;
    }
    struct str name = str_make(line.ptr, (size_t)(colon - line.ptr));
    struct str value = str_make(colon + 1, line.len - name.len - 1);
    while (value.len && (value.ptr[0] == ' ' || value.ptr[0] == '\t')) {
        value = str_make(value.ptr + 1, value.len - 1);
    }
    while (value.len && (value.ptr[value.len - 1] == '\r' || value.ptr[value.len - 1] == '\n')) {
        value.len--;
    }
    if (str_is(name, "grpc-status")) {
        x->has_grpc_status = true;
        x->grpc_status = (int)strtol(value.ptr, NULL, 10);
    } else if (str_is(name, "grpc-message")) {
        percent_decode(value, x->grpc_message, sizeof x->grpc_message);
    } else if (x->handler->on_header) {
        x->handler->on_header(x->handler->state, name, value);
    }
    return line.len;
}

static bool add_header(struct exchange *x, const char *line)
{
    struct curl_slist *longer = curl_slist_append(x->headers, line);
    if (!longer) {
        return false;
    }
    x->headers = longer;
    return true;
}

static int set_address(struct exchange *x, char *url, size_t url_room, char *connect_to,
                       size_t connect_room, struct error *err)
{
    const struct transport_options *o = x->transport->options;
    int n = o->unix_socket
                ? snprintf(url, url_room, "http://octelium-api.%s%s", o->domain, x->method->path)
                : snprintf(url, url_room, "https://octelium-api.%s%s", o->domain, x->method->path);
    int m = snprintf(connect_to, connect_room, "::%s", o->server ? o->server : "");
    if (n < 0 || (size_t)n >= url_room || m < 0 || (size_t)m >= connect_room) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "the domain or server name is too long");
    }
    return 0;
}

/* A body that is complete ends with its own last frame. Were its end a frame of its own, an answer
 * could come before it, and the reset that goes with such an answer makes libcurl drop it. */
static void set_upload(struct exchange *x)
{
    if (x->input_is_closed) {
        curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->upload.len);
        curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, x->upload.ptr);
        return;
    }
    curl_easy_setopt(x->easy, CURLOPT_READFUNCTION, on_upload);
    curl_easy_setopt(x->easy, CURLOPT_READDATA, x);
}

static int set_up(struct exchange *x, char *connect_line, struct curl_slist **connect_list,
                  const char *url, struct error *err)
{
    const struct transport_options *o = x->transport->options;
    CURL *e = x->easy = curl_easy_init();
    if (!e || !add_header(x, "content-type: application/grpc") || !add_header(x, "te: trailers") ||
        !add_header(x, "expect:") ||
        (x->transport->token_header && !add_header(x, x->transport->token_header))) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    curl_easy_setopt(e, CURLOPT_URL, url);
    curl_easy_setopt(e, CURLOPT_POST, 1L);
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, x->headers);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "octelium-cli/1");
    set_upload(x);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_download);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, x->curl_text);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    if (o->unix_socket) {
        /* 7.88 cannot use such a connection twice (curl issue 10634), so each call makes its own.
         */
        curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, o->unix_socket);
        curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE);
        curl_easy_setopt(e, CURLOPT_FORBID_REUSE, 1L);
        curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http");
        return 0;
    }
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "https");
    if (o->server) {
        *connect_list = curl_slist_append(NULL, connect_line);
        curl_easy_setopt(e, CURLOPT_CONNECT_TO, *connect_list);
    }
    if (o->ca_file) {
        curl_easy_setopt(e, CURLOPT_CAINFO, o->ca_file);
    }
    if (o->is_insecure) {
        curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    return 0;
}

static void resume_upload(struct exchange *x)
{
    if (x->is_paused) {
        x->is_paused = false;
        curl_easy_pause(x->easy, CURLPAUSE_CONT);
    }
}

static void read_input(struct exchange *x)
{
    uint8_t chunk[INPUT_CHUNK_BYTES];
    ssize_t n = read(x->handler->input_fd, chunk, sizeof chunk);
    if (n == -1 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    if (n < 0) {
        n = 0; /* a broken input is an ended one */
    }
    const ProtobufCMessage *message = x->handler->on_input(x->handler->state, chunk, (size_t)n);
    if (message && add_frame(&x->upload, message, &x->error) < 0) {
        n = 0;
    }
    x->input_is_closed = n == 0;
    resume_upload(x);
}

static CURLcode run_loop(struct exchange *x)
{
    CURLM *multi = x->transport->multi;
    for (;;) {
        int running = 0;
        int left = 0;
        curl_multi_perform(multi, &running);
        CURLMsg *done = curl_multi_info_read(multi, &left);
        if (done && done->msg == CURLMSG_DONE) {
            return done->data.result;
        }
        /* A server may refuse before it has read all, and libcurl may then wait for ever to send
         * the rest. After the status there is nothing to come. */
        bool is_answered = x->has_grpc_status;
        bool wants_input = !x->input_is_closed && x->upload.len < UPLOAD_HIGH_BYTES;
        bool can_interrupt = x->handler->interrupt_fd > 0;
        struct curl_waitfd extra[2] = {
            {.fd = can_interrupt ? x->handler->interrupt_fd : x->handler->input_fd,
             .events = CURL_WAIT_POLLIN},
            {.fd = x->handler->input_fd, .events = CURL_WAIT_POLLIN}};
        unsigned input_at = can_interrupt ? 1 : 0;
        curl_multi_poll(multi, extra, input_at + (wants_input ? 1 : 0),
                        is_answered ? LAST_POLL_TIMEOUT_MS : POLL_TIMEOUT_MS, NULL);
        if (is_answered) {
            curl_multi_perform(multi, &running);
            return CURLE_OK;
        }
        if (can_interrupt && extra[0].revents) {
            error_set(&x->error, STATUS_CANCELLED, "interrupted");
            return CURLE_ABORTED_BY_CALLBACK;
        }
        /* A hang-up of a pipe shows as an event without POLLIN; read() then tells the end. */
        if (wants_input && extra[input_at].revents) {
            read_input(x);
        }
    }
}

static int judge(struct exchange *x, CURLcode code, struct error *err)
{
    if (x->is_ended_by_us && x->error.status == 0) {
        return 0;
    }
    if (x->error.status != 0) {
        return error_set(err, x->error.status, "%s", x->error.text);
    }
    if (x->has_grpc_status) {
        return x->grpc_status == 0 ? 0 : error_set(err, x->grpc_status, "%s", x->grpc_message);
    }
    if (code != CURLE_OK) {
        const struct transport_options *o = x->transport->options;
        return error_set(
            err, code == CURLE_OPERATION_TIMEDOUT ? STATUS_DEADLINE_EXCEEDED : STATUS_UNAVAILABLE,
            "cannot reach the server at %s: %s",
            o->unix_socket ? o->unix_socket
            : o->server    ? o->server
                           : o->domain,
            x->curl_text[0] ? x->curl_text : curl_easy_strerror(code));
    }
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &x->http_status);
    return error_set(err, STATUS_UNAVAILABLE, "the server answered HTTP %ld without a gRPC status",
                     x->http_status);
}

static int exchange_run(struct exchange *x, const ProtobufCMessage *first, unsigned timeout_ms,
                        struct error *err)
{
    char url[1024];
    char connect_to[512];
    struct curl_slist *connect_list = NULL;
    buf_init(&x->upload, UPLOAD_MAX_BYTES);
    buf_init(&x->download, MESSAGE_MAX_BYTES + FRAME_PREFIX_BYTES);
    x->input_is_closed = x->handler->input_fd < 0;
    int status = add_frame(&x->upload, first, err);
    if (status == 0) {
        status = set_address(x, url, sizeof url, connect_to, sizeof connect_to, err);
    }
    if (status == 0) {
        status = set_up(x, connect_to, &connect_list, url, err);
    }
    if (status == 0) {
        curl_easy_setopt(x->easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
        curl_multi_add_handle(x->transport->multi, x->easy);
        CURLcode code = run_loop(x);
        status = judge(x, code, err);
        curl_multi_remove_handle(x->transport->multi, x->easy);
    }
    curl_easy_cleanup(x->easy);
    curl_slist_free_all(x->headers);
    curl_slist_free_all(connect_list);
    buf_free(&x->upload);
    buf_free(&x->download);
    return status;
}

int transport_stream(struct transport *t, const char *path, const ProtobufCMessage *first,
                     const struct transport_stream_handler *handler, struct error *err)
{
    struct exchange x = {.transport = t, .handler = handler};
    x.method = schema_method_find(str_from(path));
    if (!x.method) {
        return error_set(err, STATUS_UNIMPLEMENTED, "no method '%s'", path);
    }
    return exchange_run(&x, first, 0, err);
}

struct unary_state {
    struct arena *arena;
    ProtobufCMessage *reply;
};

static bool keep_reply(void *state, const ProtobufCMessage *message)
{
    struct unary_state *u = state;
    u->reply = codec_copy(message, u->arena);
    return true;
}

int transport_unary(struct transport *t, const char *path, const ProtobufCMessage *request,
                    struct arena *arena, ProtobufCMessage **ret, struct error *err)
{
    struct unary_state u = {.arena = arena};
    struct transport_stream_handler handler = {
        .on_message = keep_reply, .state = &u, .input_fd = -1};
    struct exchange x = {.transport = t, .handler = &handler};
    x.method = schema_method_find(str_from(path));
    if (!x.method) {
        return error_set(err, STATUS_UNIMPLEMENTED, "no method '%s'", path);
    }
    int status = exchange_run(&x, request, t->options->timeout_ms, err);
    if (status < 0) {
        return status;
    }
    if (!u.reply) {
        return error_set(err, STATUS_INTERNAL, "the server's answer has no message");
    }
    *ret = u.reply;
    return 0;
}
