#include "gateway/auditfile/line_fields.h"

#include "gateway/rpc/codec_scalar.h"
#include "gateway/text/json_reader.h"

/* Members that are no text to be kept. */
enum { MEMBER_TIME = LINE_FIELD_COUNT, MEMBER_IN_WORKSPACE, MEMBER_HTTP_METHOD };

/* A member of an object: one that is kept, or an object with such members. */
struct member {
    struct str key;
    int field;
    const struct member *members;
    size_t count;
};

#define KEEP(name, what)                                                                           \
    {                                                                                              \
        .key = {name, sizeof(name) - 1}, .field = (what)                                           \
    }
#define OBJECT(name, list)                                                                         \
    {                                                                                              \
        .key = {name, sizeof(name) - 1}, .members = (list),                                        \
        .count = sizeof(list) / sizeof((list)[0])                                                  \
    }
#define REF(list, what)                                                                            \
    static const struct member list[] = {KEEP("name", what), KEEP("uid", what##_UID)}

REF(user_ref, LINE_USER);
REF(session_ref, LINE_SESSION);
REF(space_ref, LINE_SPACE);
REF(template_ref, LINE_TEMPLATE);
REF(workspace_ref, LINE_WORKSPACE);
REF(policy_ref, LINE_POLICY);

static const struct member inline_policy[] = {KEEP("name", LINE_POLICY)};
static const struct member policy[] = {OBJECT("policyRef", policy_ref)};
static const struct member policy_match[] = {
    OBJECT("policy", policy), OBJECT("inlinePolicy", inline_policy), KEEP("ruleName", LINE_RULE)};
static const struct member details[] = {OBJECT("policyMatch", policy_match)};
static const struct member reason[] = {KEEP("type", LINE_REASON), OBJECT("details", details)};
static const struct member common[] = {KEEP("status", LINE_DECISION), OBJECT("reason", reason),
                                       OBJECT("sessionRef", session_ref),
                                       OBJECT("userRef", user_ref)};
static const struct member grpc[] = {KEEP("method", LINE_METHOD), KEEP("path", LINE_PATH)};
static const struct member http_request[] = {KEEP("method", MEMBER_HTTP_METHOD),
                                             KEEP("path", LINE_PATH)};
static const struct member http[] = {OBJECT("request", http_request)};
static const struct member info[] = {OBJECT("grpc", grpc), OBJECT("http", http)};
static const struct member entry[] = {OBJECT("common", common), OBJECT("info", info)};
static const struct member refusal[] = {KEEP("code", LINE_CODE)};
static const struct member outcome[] = {KEEP("runId", LINE_RUN_ID), KEEP("outcome", LINE_OUTCOME)};
static const struct member cordium[] = {
    KEEP("event", LINE_EVENT),
    KEEP("requestID", LINE_REQUEST_ID),
    KEEP("peer", LINE_PEER),
    KEEP("inWorkspace", MEMBER_IN_WORKSPACE),
    KEEP("code", LINE_CODE),
    KEEP("userUID", LINE_USER_UID),
    KEEP("runId", LINE_RUN_ID),
    OBJECT("userRef", user_ref),
    OBJECT("refusal", refusal),
    OBJECT("outcome", outcome),
    OBJECT("spaceRef", space_ref),
    OBJECT("templateRef", template_ref),
    OBJECT("workspaceRef", workspace_ref),
};
static const struct member metadata[] = {KEEP("id", LINE_ID), KEEP("createdAt", MEMBER_TIME)};
static const struct member top[] = {KEEP("kind", LINE_KIND), OBJECT("metadata", metadata),
                                    OBJECT("entry", entry), OBJECT("cordium", cordium)};
static const struct member whole = OBJECT("", top);

struct reading {
    const char *next;
    const char *end;
    struct arena *arena;
    struct line_fields *ret;
    struct str http_method;
};

static bool take(struct reading *in, char c)
{
    if (in->next < in->end && *in->next == c) {
        in->next++;
        return true;
    }
    return false;
}

/* A string without its quotes, escapes and all. */
static bool take_string(struct reading *in, struct str *ret, bool *ret_has_escapes)
{
    if (!take(in, '"')) {
        return false;
    }
    const char *begin = in->next;
    *ret_has_escapes = false;
    while (in->next < in->end && *in->next != '"') {
        if (*in->next == '\\') {
            *ret_has_escapes = true;
            in->next++;
        }
        in->next++;
    }
    if (in->next >= in->end) {
        return false;
    }
    *ret = str_make(begin, (size_t)(in->next - begin));
    in->next++;
    return true;
}

static bool skip_string(struct reading *in)
{
    struct str ignored;
    bool has_escapes;
    return take_string(in, &ignored, &has_escapes);
}

/* A number, true, false or null. */
static struct str take_word(struct reading *in)
{
    const char *begin = in->next;
    while (in->next < in->end && *in->next != ',' && *in->next != '}' && *in->next != ']') {
        in->next++;
    }
    return str_make(begin, (size_t)(in->next - begin));
}

/* An object or array with all that is in it. */
static bool skip_nested(struct reading *in)
{
    size_t depth = 0;
    while (in->next < in->end) {
        char c = *in->next;
        if (c == '"') {
            if (!skip_string(in)) {
                return false;
            }
            continue;
        }
        in->next++;
        depth += c == '{' || c == '[';
        if ((c == '}' || c == ']') && --depth == 0) {
            return true;
        }
    }
    return false;
}

static bool skip_value(struct reading *in)
{
    if (in->next >= in->end) {
        return false;
    }
    if (*in->next == '"') {
        return skip_string(in);
    }
    return *in->next == '{' || *in->next == '[' ? skip_nested(in) : take_word(in).len > 0;
}

/* Takes the escapes out; `quoted` has its quotes. */
static bool unescape(struct reading *in, struct str quoted, struct str *ret)
{
    const struct tree_node *node;
    struct error ignored;
    if (json_read(quoted, in->arena, &node, &ignored) < 0) {
        return false;
    }
    *ret = node->text;
    return true;
}

static void keep_time(struct line_fields *ret, struct str text)
{
    int64_t seconds;
    int32_t nanos;
    if (scalar_read_timestamp(text, &seconds, &nanos) && seconds >= 0 &&
        seconds < INT64_MAX / 1000000000) {
        ret->time_ns = seconds * 1000000000 + nanos;
    }
}

static bool keep_text(struct reading *in, int field)
{
    struct str text;
    bool has_escapes;
    if (!take_string(in, &text, &has_escapes)) {
        return false;
    }
    if (has_escapes && !unescape(in, str_make(text.ptr - 1, text.len + 2), &text)) {
        return false;
    }
    if (field == MEMBER_TIME) {
        keep_time(in->ret, text);
    } else if (field == MEMBER_HTTP_METHOD) {
        in->http_method = text;
    } else if (field < LINE_FIELD_COUNT) {
        in->ret->text[field] = text;
    }
    return true;
}

static bool keep(struct reading *in, int field)
{
    if (field == MEMBER_IN_WORKSPACE && in->next < in->end && *in->next != '"') {
        in->ret->in_workspace = str_is(take_word(in), "true");
        return true;
    }
    return in->next < in->end && *in->next == '"' ? keep_text(in, field) : skip_value(in);
}

static const struct member *find(const struct member *object, struct str key)
{
    for (size_t i = 0; i < object->count; i++) {
        const struct member *m = &object->members[i];
        if (m->key.len == key.len && str_same_bytes(m->key.ptr, key.ptr, key.len)) {
            return m;
        }
    }
    return NULL;
}

/* As deep as the table is. */
static bool read_object(struct reading *in, const struct member *object)
{
    if (!take(in, '{')) {
        return skip_value(in);
    }
    if (take(in, '}')) {
        return true;
    }
    do {
        struct str key;
        bool has_escapes;
        if (!take_string(in, &key, &has_escapes) || !take(in, ':')) {
            return false;
        }
        const struct member *m = find(object, key);
        bool ok = !m ? skip_value(in) : m->members ? read_object(in, m) : keep(in, m->field);
        if (!ok) {
            return false;
        }
    } while (take(in, ','));
    return take(in, '}');
}

static bool name_http(struct reading *in)
{
    struct line_fields *f = in->ret;
    if (!in->http_method.ptr) {
        return true;
    }
    char *text = arena_alloc(in->arena, in->http_method.len + 1 + f->text[LINE_PATH].len);
    if (!text) {
        return false;
    }
    memcpy(text, in->http_method.ptr, in->http_method.len);
    text[in->http_method.len] = ' ';
    if (f->text[LINE_PATH].len > 0) {
        memcpy(text + in->http_method.len + 1, f->text[LINE_PATH].ptr, f->text[LINE_PATH].len);
    }
    f->text[LINE_METHOD] = str_make(text, in->http_method.len + 1 + f->text[LINE_PATH].len);
    return true;
}

bool line_fields_read(struct str line, struct arena *arena, struct line_fields *ret)
{
    struct reading in = {line.ptr, line.ptr + line.len, arena, ret, STR_NONE};
    *ret = (struct line_fields){0};
    return line.len > 0 && line.ptr[0] == '{' && read_object(&in, &whole) && in.next == in.end &&
           name_http(&in);
}

struct str line_path_tail(struct str path)
{
    const char *dot = path.len > 0 ? memrchr(path.ptr, '.', path.len) : NULL;
    return dot ? str_make(dot + 1, (size_t)(path.ptr + path.len - dot) - 1) : STR_NONE;
}

struct str line_peer_address(struct str peer)
{
    if (str_starts_with(peer, STR("unix:"))) {
        return STR("unix");
    }
    const char *colon = peer.len > 0 ? memrchr(peer.ptr, ':', peer.len) : NULL;
    return colon ? str_make(peer.ptr, (size_t)(colon - peer.ptr)) : peer;
}
