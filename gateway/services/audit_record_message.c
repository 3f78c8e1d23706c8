#include "gateway/services/audit_record_message.h"

#include "gateway/rpc/codec.h"
#include "gateway/state/resource.h"

static const struct {
    enum line_field field;
    size_t offset;
} texts[] = {
    {LINE_ID, offsetof(Ext__AuditRecord, id)},
    {LINE_KIND, offsetof(Ext__AuditRecord, kind)},
    {LINE_EVENT, offsetof(Ext__AuditRecord, event)},
    {LINE_REQUEST_ID, offsetof(Ext__AuditRecord, request_id)},
    {LINE_RUN_ID, offsetof(Ext__AuditRecord, run_id)},
    {LINE_USER, offsetof(Ext__AuditRecord, user)},
    {LINE_USER_UID, offsetof(Ext__AuditRecord, user_uid)},
    {LINE_SESSION, offsetof(Ext__AuditRecord, session)},
    {LINE_SESSION_UID, offsetof(Ext__AuditRecord, session_uid)},
    {LINE_SPACE, offsetof(Ext__AuditRecord, space)},
    {LINE_SPACE_UID, offsetof(Ext__AuditRecord, space_uid)},
    {LINE_TEMPLATE, offsetof(Ext__AuditRecord, template_)},
    {LINE_TEMPLATE_UID, offsetof(Ext__AuditRecord, template_uid)},
    {LINE_WORKSPACE, offsetof(Ext__AuditRecord, workspace)},
    {LINE_WORKSPACE_UID, offsetof(Ext__AuditRecord, workspace_uid)},
    {LINE_DECISION, offsetof(Ext__AuditRecord, decision)},
    {LINE_REASON, offsetof(Ext__AuditRecord, reason)},
    {LINE_POLICY, offsetof(Ext__AuditRecord, policy)},
    {LINE_POLICY_UID, offsetof(Ext__AuditRecord, policy_uid)},
    {LINE_RULE, offsetof(Ext__AuditRecord, rule)},
    {LINE_OUTCOME, offsetof(Ext__AuditRecord, outcome)},
    {LINE_CODE, offsetof(Ext__AuditRecord, code)},
    {LINE_PEER, offsetof(Ext__AuditRecord, peer)},
};

static bool set_text(Ext__AuditRecord *m, size_t offset, struct str text, struct arena *arena)
{
    if (text.len == 0) {
        return true;
    }
    char *copy = arena_strndup(arena, text.ptr, text.len);
    if (copy) {
        memcpy((char *)m + offset, &copy, sizeof copy);
    }
    return copy;
}

/* A whole path where there is one: "Exec" alone may be of several services. */
static struct str method_of(const struct line_fields *f)
{
    struct str path = f->text[LINE_PATH];
    struct str method = f->text[LINE_METHOD];
    return path.len > method.len ? path : method;
}

Ext__AuditRecord *audit_record_message(uint64_t sequence, struct str line,
                                       const struct line_fields *fields, bool without_line,
                                       struct arena *arena)
{
    Ext__AuditRecord *m = CODEC_NEW(arena, Ext__AuditRecord, ext__audit_record);
    bool ok = m && set_text(m, offsetof(Ext__AuditRecord, method), method_of(fields), arena) &&
              (without_line || set_text(m, offsetof(Ext__AuditRecord, line), line, arena));
    for (size_t i = 0; ok && i < sizeof texts / sizeof texts[0]; i++) {
        ok = set_text(m, texts[i].offset, fields->text[texts[i].field], arena);
    }
    if (!ok) {
        return NULL;
    }
    m->sequence = sequence;
    m->in_workspace = fields->in_workspace;
    m->time = fields->time_ns ? resource_timestamp(fields->time_ns, arena) : NULL;
    return m;
}
