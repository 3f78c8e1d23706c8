#include "gateway/telemetry/otlp_exporter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

#include "gateway/http_client.h"
#include "gateway/telemetry/backoff.h"
#include "gateway/telemetry/line_queue.h"
#include "gateway/telemetry/sink_report.h"
#include "policy/base/bytes.h"

enum {
    /* A line as protobuf is at most some times as long: each member costs a few bytes more. */
    MESSAGE_MAX_BYTES = 64 * 1024 * 1024,
    URL_SIZE = 512,
    REASON_SIZE = 192,
};

/* Of the logs. Metrics have no state: the exchange under way, if there is one. */
enum state {
    STATE_IDLE,     /* nothing is ready, or the batch grows until the timer fires */
    STATE_ENCODING, /* in a worker */
    STATE_SENDING,
    STATE_PAUSED, /* until the timer fires, then the same batch again */
};

struct otlp_exporter {
    uv_loop_t *loop;
    struct http_client *http;
    struct otlp_settings settings;
    char logs_url[URL_SIZE];
    char metrics_url[URL_SIZE];
    const char **headers;

    enum state state;
    struct line_queue *queue;
    uv_timer_t timer;
    uv_work_t work;
    struct str batch[OTLP_BATCH_LINES_MAX];
    size_t batch_count; /* 0: none */
    bool has_leftovers; /* lines were ready that the batch had no room for */
    int64_t observed_wall_ns;
    struct buf message;
    struct http_exchange *exchange;
    struct backoff backoff;
    struct sink_report report;

    uv_timer_t metrics_timer;
    struct buf metrics_message;
    struct http_exchange *metrics_exchange;

    unsigned open_handles;
    bool is_flushing;
    bool is_freed;
};

static void begin_batch(struct otlp_exporter *o);
static void send_batch(struct otlp_exporter *o);
static void go_on(struct otlp_exporter *o);

static int64_t wall_ns(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void count_export(const struct otlp_exporter *o, enum metric_signal signal,
                         enum metric_export result)
{
    metrics_add(o->settings.metrics, METRIC_TELEMETRY_EXPORTS, signal, result, 0, 1);
}

static int post(struct otlp_exporter *o, const char *url, const struct buf *message,
                void (*done)(void *arg, const struct http_answer *answer),
                struct http_exchange **ret, struct error *err)
{
    const struct http_post p = {
        .url = url,
        .headers = o->headers,
        .header_count = o->settings.header_count + 1,
        .body = buf_str(message),
        .ca_bundle = o->settings.ca_bundle,
        .timeout_ms = OTLP_TIMEOUT_MS,
    };
    return http_client_post(o->http, &p, done, o, ret, err);
}

/* ---- logs ---- */

static void on_timer(uv_timer_t *timer)
{
    struct otlp_exporter *o = timer->data;
    if (o->state == STATE_PAUSED) {
        send_batch(o);
    } else if (o->state == STATE_IDLE && line_queue_ready(o->queue) > 0) {
        begin_batch(o);
    }
}

static void pause_batch(struct otlp_exporter *o, const char *reason, uint64_t asked_ms)
{
    uint64_t ms = backoff_next_ms(&o->backoff, asked_ms, (uint32_t)uv_hrtime());
    sink_report_failure(&o->report, reason, uv_hrtime());
    count_export(o, METRIC_SIGNAL_LOGS, METRIC_EXPORT_UNREACHED);
    o->state = STATE_PAUSED;
    (void)uv_timer_start(&o->timer, on_timer, ms, 0);
}

static void end_batch(struct otlp_exporter *o)
{
    line_queue_drop(o->queue, o->batch_count);
    o->batch_count = 0;
    buf_clear(&o->message);
    backoff_reset(&o->backoff);
    o->state = STATE_IDLE;
    go_on(o);
}

static void reject_batch(struct otlp_exporter *o, const char *reason)
{
    count_export(o, METRIC_SIGNAL_LOGS, METRIC_EXPORT_REFUSED);
    sink_report_rejected(&o->report, o->batch_count, reason, uv_hrtime());
    end_batch(o);
}

static void accept_batch(struct otlp_exporter *o, const struct http_answer *answer)
{
    struct otlp_answer said = {0};
    char reason[REASON_SIZE];
    /* An answer in another encoding says no less that the batch was taken. */
    (void)otlp_answer_read(answer->body, &said, NULL);
    uint64_t rejected = said.rejected < o->batch_count ? said.rejected : o->batch_count;
    count_export(o, METRIC_SIGNAL_LOGS, METRIC_EXPORT_OK);
    sink_report_sent(&o->report, o->batch_count - rejected);
    if (rejected > 0) {
        (void)snprintf(reason, sizeof reason, "the receiver refuses lines: %s", said.reason);
        sink_report_rejected(&o->report, rejected, reason, uv_hrtime());
    }
    end_batch(o);
}

static bool is_retryable(int status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

static void on_answer(void *arg, const struct http_answer *answer)
{
    struct otlp_exporter *o = arg;
    char reason[REASON_SIZE];
    o->exchange = NULL;
    if (answer->status / 100 == 2) {
        accept_batch(o, answer);
        return;
    }
    if (answer->status) {
        (void)snprintf(reason, sizeof reason, "the receiver answers %d", answer->status);
    } else {
        (void)snprintf(reason, sizeof reason, "%s", answer->error);
    }
    if (answer->status && !is_retryable(answer->status)) {
        reject_batch(o, reason);
    } else {
        pause_batch(o, reason, answer->retry_after_ms);
    }
}

static void send_batch(struct otlp_exporter *o)
{
    struct error err;
    o->state = STATE_SENDING;
    if (post(o, o->logs_url, &o->message, on_answer, &o->exchange, &err) < 0) {
        pause_batch(o, err.text, 0);
    }
}

static void encode(uv_work_t *work)
{
    struct otlp_exporter *o = work->data;
    otlp_message_logs(o->settings.source, o->batch, o->batch_count, o->observed_wall_ns,
                      &o->message);
}

static void free_when_closed(struct otlp_exporter *o);

static void on_encoded(uv_work_t *work, int status)
{
    struct otlp_exporter *o = work->data;
    (void)status; /* nobody cancels it */
    o->state = STATE_IDLE;
    if (o->is_freed) {
        free_when_closed(o);
        return;
    }
    if (o->message.failed) {
        reject_batch(o, "a batch needs more memory than it may use");
        return;
    }
    send_batch(o);
}

static void begin_batch(struct otlp_exporter *o)
{
    o->batch_count =
        line_queue_peek(o->queue, OTLP_BATCH_LINES_MAX, OTLP_BATCH_BYTES_MAX, o->batch);
    o->has_leftovers = o->batch_count < line_queue_ready(o->queue);
    o->observed_wall_ns = wall_ns();
    o->message.failed = false;
    o->work.data = o;
    o->state = STATE_ENCODING;
    if (uv_queue_work(o->loop, &o->work, encode, on_encoded) < 0) {
        encode(&o->work); /* only for a NULL function, says libuv */
        on_encoded(&o->work, 0);
    }
}

/* A batch that is not full waits for more, from its first line on; what one batch had no room for
 * follows it at once. */
static void go_on(struct otlp_exporter *o)
{
    size_t ready = line_queue_ready(o->queue);
    if (o->state != STATE_IDLE || ready == 0) {
        return;
    }
    if (o->is_flushing || o->has_leftovers || ready >= OTLP_BATCH_LINES_MAX) {
        (void)uv_timer_stop(&o->timer);
        begin_batch(o);
    } else if (!uv_is_active((uv_handle_t *)&o->timer)) {
        (void)uv_timer_start(&o->timer, on_timer, OTLP_BATCH_DELAY_MS, 0);
    }
}

void otlp_exporter_add(struct otlp_exporter *o, struct str line)
{
    if (!line_queue_push(o->queue, line)) {
        sink_report_dropped(&o->report, 1, uv_hrtime());
    }
}

void otlp_exporter_release(struct otlp_exporter *o)
{
    line_queue_release(o->queue);
    go_on(o);
}

size_t otlp_exporter_depth(const struct otlp_exporter *o)
{
    return line_queue_length(o->queue);
}

/* ---- metrics ---- */

static void on_metrics_answer(void *arg, const struct http_answer *answer)
{
    struct otlp_exporter *o = arg;
    o->metrics_exchange = NULL;
    count_export(o, METRIC_SIGNAL_METRICS,
                 answer->status / 100 == 2                         ? METRIC_EXPORT_OK
                 : answer->status && !is_retryable(answer->status) ? METRIC_EXPORT_REFUSED
                                                                   : METRIC_EXPORT_UNREACHED);
}

static void on_metrics_timer(uv_timer_t *timer)
{
    struct otlp_exporter *o = timer->data;
    struct error err;
    if (o->metrics_exchange) {
        return; /* a receiver slower than the interval gets the next ones */
    }
    o->settings.gather(o->settings.gather_arg);
    buf_clear(&o->metrics_message);
    o->metrics_message.failed = false;
    otlp_message_metrics(o->settings.source, o->settings.metrics, wall_ns(), &o->metrics_message);
    if (o->metrics_message.failed || post(o, o->metrics_url, &o->metrics_message, on_metrics_answer,
                                          &o->metrics_exchange, &err) < 0) {
        o->metrics_exchange = NULL;
        count_export(o, METRIC_SIGNAL_METRICS, METRIC_EXPORT_UNREACHED);
    }
}

/* ---- life ---- */

void otlp_exporter_flush(struct otlp_exporter *o)
{
    o->is_flushing = true;
    go_on(o);
    if (o->settings.metrics_interval_s > 0) {
        (void)uv_timer_stop(&o->metrics_timer);
        on_metrics_timer(&o->metrics_timer);
    }
}

bool otlp_exporter_is_idle(const struct otlp_exporter *o)
{
    return line_queue_ready(o->queue) == 0 && !o->metrics_exchange;
}

static bool write_urls(struct otlp_exporter *o, const struct endpoint *e)
{
    bool is_v6 = strchr(e->host, ':') != NULL;
    char base[URL_SIZE];
    int n = snprintf(base, sizeof base, "%s://%s%s%s:%u%s",
                     e->scheme == ENDPOINT_HTTPS ? "https" : "http", is_v6 ? "[" : "", e->host,
                     is_v6 ? "]" : "", e->port, e->path);
    int logs = snprintf(o->logs_url, sizeof o->logs_url, "%s/v1/logs", base);
    int metrics = snprintf(o->metrics_url, sizeof o->metrics_url, "%s/v1/metrics", base);
    return n > 0 && n < URL_SIZE && logs < URL_SIZE && metrics < URL_SIZE;
}

static bool copy_headers(struct otlp_exporter *o)
{
    o->headers = calloc(o->settings.header_count + 1, sizeof *o->headers);
    if (!o->headers) {
        return false;
    }
    o->headers[0] = "Content-Type: application/x-protobuf";
    for (size_t i = 0; i < o->settings.header_count; i++) {
        o->headers[i + 1] = o->settings.headers[i];
    }
    return true;
}

static void release_memory(struct otlp_exporter *o)
{
    line_queue_free(o->queue);
    buf_free(&o->message);
    buf_free(&o->metrics_message);
    free(o->headers);
    free(o);
}

static void free_when_closed(struct otlp_exporter *o)
{
    if (o->open_handles == 0 && o->state != STATE_ENCODING) {
        release_memory(o);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct otlp_exporter *o = handle->data;
    o->open_handles--;
    free_when_closed(o);
}

static void open_timer(struct otlp_exporter *o, uv_timer_t *timer)
{
    (void)uv_timer_init(o->loop, timer); /* cannot fail */
    timer->data = o;
    uv_unref((uv_handle_t *)timer);
    o->open_handles++;
}

int otlp_exporter_new(struct uv_loop_s *loop, struct http_client *http,
                      const struct otlp_settings *settings, struct otlp_exporter **ret,
                      struct error *err)
{
    struct otlp_exporter *o = calloc(1, sizeof *o);
    if (!o) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "start the OTLP exporter: out of memory");
    }
    o->loop = loop;
    o->http = http;
    o->settings = *settings;
    o->queue = line_queue_new(settings->queue_bytes_max);
    buf_init(&o->message, MESSAGE_MAX_BYTES);
    buf_init(&o->metrics_message, MESSAGE_MAX_BYTES);
    sink_report_init(&o->report, "otlp", METRIC_SINK_OTLP, settings->metrics);
    if (!o->queue || !copy_headers(o) || !write_urls(o, settings->endpoint)) {
        release_memory(o);
        return error_set(err, STATUS_RESOURCE_EXHAUSTED,
                         "start the OTLP exporter: out of memory, or the endpoint is too long");
    }
    open_timer(o, &o->timer);
    open_timer(o, &o->metrics_timer);
    if (settings->metrics_interval_s > 0) {
        uint64_t ms = (uint64_t)settings->metrics_interval_s * 1000;
        (void)uv_timer_start(&o->metrics_timer, on_metrics_timer, ms, ms);
    }
    *ret = o;
    return 0;
}

void otlp_exporter_free(struct otlp_exporter *o)
{
    if (!o) {
        return;
    }
    o->is_freed = true;
    if (o->exchange) {
        http_exchange_cancel(o->exchange);
    }
    if (o->metrics_exchange) {
        http_exchange_cancel(o->metrics_exchange);
    }
    uv_close((uv_handle_t *)&o->timer, on_handle_closed);
    uv_close((uv_handle_t *)&o->metrics_timer, on_handle_closed);
}
