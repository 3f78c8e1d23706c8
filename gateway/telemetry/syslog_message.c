#include "gateway/telemetry/syslog_message.h"

#include <string.h>

#include "gateway/audit/wall_time.h"
#include "gateway/telemetry/audit_facts.h"

enum {
    LINE_ARENA_MAX_BYTES = 64 * 1024 * 1024,
    MESSAGE_MAX_BYTES =
        4 * 1024 * 1024,    /* the longest line of the audit log, and what is before it */
    VALUE_MAX_BYTES = 1024, /* of one parameter; the JSON has all of it */
    NAME_MAX_BYTES = 32,    /* MSGID, RFC 5424 §6 */
    HOST_MAX_BYTES = 255,
    SEVERITY_ERROR = 3,
    SEVERITY_WARNING = 4,
    SEVERITY_INFORMATIONAL = 6,
};

void syslog_escape_value(struct str value, struct buf *out)
{
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        if (c == '"' || c == '\\' || c == ']') {
            buf_add_u8(out, '\\');
        }
        buf_add_u8(out, c < 0x20 || c == 0x7f ? ' ' : c);
    }
}

/* The longest beginning of at most max bytes that cuts no character of UTF-8. */
static struct str cut(struct str s, size_t max)
{
    if (s.len <= max) {
        return s;
    }
    size_t n = max;
    while (n > 0 && ((unsigned char)s.ptr[n] & 0xc0) == 0x80) {
        n--;
    }
    return str_make(s.ptr, n);
}

static void put_parameter(struct buf *out, const char *name, struct str value)
{
    if (value.len > 0) {
        buf_printf(out, " %s=\"", name);
        syslog_escape_value(cut(value, VALUE_MAX_BYTES), out);
        buf_add_u8(out, '"');
    }
}

/* Header fields are printable ASCII without spaces; an empty one is "-". */
static void put_field(struct buf *out, struct str value, size_t max)
{
    size_t n = value.len < max ? value.len : max;
    buf_add_u8(out, ' ');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        buf_add_u8(out, c > 0x20 && c < 0x7f ? c : '?');
    }
    if (n == 0) {
        buf_add_u8(out, '-');
    }
}

static unsigned severity_of(const struct audit_facts *f)
{
    if (str_is(f->kind, "AuditGap")) {
        return SEVERITY_ERROR;
    }
    return str_is(f->decision, "DENIED") ? SEVERITY_WARNING : SEVERITY_INFORMATIONAL;
}

static void put_header(struct buf *out, const struct syslog_source *source,
                       const struct audit_facts *f)
{
    char time[WALL_TIME_TEXT_SIZE] = "";
    if (f->wall_ns) {
        /* TIME-SECFRAC has at most six digits. */
        wall_time_format_ns(f->wall_ns - f->wall_ns % 1000, time);
    }
    buf_printf(out, "<%u>1", source->facility * 8 + severity_of(f));
    put_field(out, str_from(time), sizeof time);
    put_field(out, str_from(source->host), HOST_MAX_BYTES);
    put_field(out, STR("cordium-gateway"), NAME_MAX_BYTES);
    put_field(out, str_from(source->pid), NAME_MAX_BYTES);
    put_field(out, f->kind, NAME_MAX_BYTES);
}

static void put_data(struct buf *out, const struct audit_facts *f)
{
    buf_add_cstr(out, " [cordium@32473");
    put_parameter(out, "sequence", f->sequence);
    put_parameter(out, "event", f->event);
    put_parameter(out, "decision", f->decision);
    put_parameter(out, "reason", f->reason);
    put_parameter(out, "code", f->code);
    put_parameter(out, "user", f->user_name);
    put_parameter(out, "userUID", f->user_uid);
    put_parameter(out, "sessionUID", f->session_uid);
    put_parameter(out, "service", f->rpc_service);
    put_parameter(out, "method", f->rpc_method.len > 0 ? f->rpc_method : f->http_method);
    put_parameter(out, "path", f->http_path);
    put_parameter(out, "peer", f->peer);
    put_parameter(out, "requestID", f->request_id);
    buf_add_cstr(out, "] ");
}

void syslog_message_write(const struct syslog_source *source, enum syslog_framing framing,
                          struct str line, struct buf *out)
{
    struct arena arena;
    struct buf message;
    struct audit_facts facts = {0};
    struct error ignored;
    arena_init(&arena, LINE_ARENA_MAX_BYTES);
    buf_init(&message, MESSAGE_MAX_BYTES);
    /* A line that is no JSON has no facts, and still goes. */
    (void)audit_facts_read(line, &arena, &facts, &ignored);
    put_header(&message, source, &facts);
    put_data(&message, &facts);
    buf_add_str(&message, line);
    if (framing == SYSLOG_COUNTED) {
        buf_printf(out, "%zu ", message.len);
    }
    buf_add_str(out, buf_str(&message));
    out->failed = out->failed || message.failed;
    buf_free(&message);
    arena_free(&arena);
}
