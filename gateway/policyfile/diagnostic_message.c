#include "gateway/policyfile/diagnostic_message.h"

#include "gateway/rpc/codec.h"

static char *copy(struct arena *arena, const char *s)
{
    return arena_strdup(arena, s ? s : "");
}

static const Ext__PolicyDiagnostic__Severity severities[] = {
    [POLICY_SEVERITY_NOTE] = EXT__POLICY_DIAGNOSTIC__SEVERITY__NOTE,
    [POLICY_SEVERITY_WARNING] = EXT__POLICY_DIAGNOSTIC__SEVERITY__WARNING,
    [POLICY_SEVERITY_ERROR] = EXT__POLICY_DIAGNOSTIC__SEVERITY__ERROR,
};

static bool add_source(Ext__PolicyDiagnostic *m, const struct diagnostic *item, struct arena *arena)
{
    if (item->source.len == 0 || item->source.len > DIAGNOSTIC_SOURCE_MAX_BYTES) {
        return true;
    }
    struct buf caret;
    buf_init(&caret, 4 * DIAGNOSTIC_SOURCE_MAX_BYTES);
    diagnostic_underline(item, &caret);
    m->source = arena_strndup(arena, item->source.ptr, item->source.len);
    m->caret = arena_strndup(arena, (const char *)caret.ptr, caret.len);
    buf_free(&caret);
    return m->source && m->caret;
}

Ext__PolicyDiagnostic *diagnostic_message_of(const struct diagnostic *item, struct arena *arena)
{
    Ext__PolicyDiagnostic *m = CODEC_NEW(arena, Ext__PolicyDiagnostic, ext__policy_diagnostic);
    if (!m) {
        return NULL;
    }
    m->file = copy(arena, item->file);
    m->line = item->line;
    m->column = item->column;
    m->end_column = item->line ? item->column + item->length : 0;
    m->severity = severities[item->severity];
    m->code = (char *)(uintptr_t)item->code; /* protobuf-c's strings are not const */
    m->message = copy(arena, item->text);
    m->remedy = copy(arena, item->remedy);
    m->subject = copy(arena, item->subject);
    bool is_full = !m->file || !m->message || !m->remedy || !m->subject;
    return !is_full && add_source(m, item, arena) ? m : NULL;
}

struct diagnostic diagnostic_of_message(const Ext__PolicyDiagnostic *message)
{
    struct diagnostic d = {
        .file = message->file,
        .line = message->line,
        .column = message->column,
        .length = message->end_column > message->column ? message->end_column - message->column : 1,
        .severity = POLICY_SEVERITY_NOTE,
        .code = message->code,
        .text = message->message,
        .remedy = message->remedy,
        .subject = message->subject,
        .source = str_from(message->source),
    };
    for (size_t i = 0; i < sizeof severities / sizeof severities[0]; i++) {
        if (severities[i] == message->severity) {
            d.severity = (enum policy_severity)i;
        }
    }
    return d;
}
