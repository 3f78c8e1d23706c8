#include "gateway/cli/audit_story.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/cli/audit_line.h"

enum { TEXT_MAX_BYTES = 4 * 1024 * 1024, NAME_SIZE = 64 };

/* What the parts below work with. */
struct story {
    struct arena *arena;
    struct page *page;
    struct audit_line *lines; /* in the order of the log */
    size_t count;
    const struct audit_line *first; /* of the request: its decision */
    const struct audit_line *end;   /* the line that says what became of it; NULL: none yet */
    bool is_full;                   /* the arena */
};

static void field(struct story *s, const char *label, const char *text)
{
    s->is_full = s->is_full || !text;
    page_field(s->page, label, text ? text : "");
}

/* Parts with something between them; empty ones leave nothing. */
static void add_part(struct buf *b, const char *between, const char *text)
{
    if (text[0]) {
        buf_add_cstr(b, b->len > 0 ? between : "");
        buf_add_cstr(b, text);
    }
}

static void field_of_buf(struct story *s, const char *label, struct buf *b)
{
    field(s, label, b->failed ? NULL : arena_strndup(s->arena, (const char *)b->ptr, b->len));
    buf_free(b);
}

/* "cpuUserUs" is "cpu user us": for members that have no words of their own. */
static const char *spell(const char *name, char ret[NAME_SIZE])
{
    size_t n = 0;
    for (size_t i = 0; name[i] && n + 2 < NAME_SIZE; i++) {
        bool is_start =
            i > 0 && isupper((unsigned char)name[i]) && !isupper((unsigned char)name[i - 1]);
        if (is_start) {
            ret[n++] = ' ';
        }
        ret[n++] = (char)tolower((unsigned char)name[i]);
    }
    ret[n] = '\0';
    return ret;
}

/* --- who --- */

static const char *ref_text(struct story *s, const struct audit_line *line, const char *path)
{
    const struct tree_node *ref = audit_line_at(line, path);
    const char *name = audit_node_text(ref, "name");
    const char *uid = audit_node_text(ref, "uid");
    const char *text = name[0] && uid[0] ? arena_printf(s->arena, "%s (%s)", name, uid)
                       : name[0]         ? name
                                         : uid;
    s->is_full = s->is_full || !text;
    return text ? text : "";
}

static void tell_who(struct story *s)
{
    const struct audit_line *l = s->first;
    const char *user = ref_text(s, l, "entry.common.userRef");
    user = user[0] ? user : ref_text(s, l, "cordium.userRef");
    user = user[0] ? user : audit_line_text(l, "cordium.userUID");
    bool is_request = audit_line_at(l, "entry") != NULL;
    field(s, "user", user[0] || !is_request ? user : "nobody who is known");
    field(s, "session", ref_text(s, l, "entry.common.sessionRef"));
    field(s, "credential", ref_text(s, l, "cordium.credentialRef"));
    struct buf from;
    buf_init(&from, TEXT_MAX_BYTES);
    add_part(&from, "", audit_line_text(l, "cordium.peer"));
    const char *protocol = audit_line_text(l, "cordium.protocol");
    add_part(&from, " by ", protocol);
    add_part(&from, ", ", audit_line_text(l, "cordium.userAgent"));
    add_part(&from, ", ", audit_line_is(l, "cordium.inWorkspace") ? "inside of a workspace" : "");
    field_of_buf(s, "from", &from);
}

/* --- what --- */

static void add_objects(struct story *s)
{
    static const char *const objects[][2] = {
        {"workspace", "cordium.workspaceRef"},
        {"template", "cordium.templateRef"},
        {"space", "cordium.spaceRef"},
    };
    const char *target = audit_line_text(s->first, "metadata.targetRef.uid");
    bool is_among_them = !target[0];
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        const struct tree_node *ref = audit_line_at(s->first, objects[i][1]);
        is_among_them = is_among_them || strcmp(audit_node_text(ref, "uid"), target) == 0;
        field(s, objects[i][0], ref_text(s, s->first, objects[i][1]));
    }
    if (!is_among_them) {
        const char *kind = audit_line_text(s->first, "metadata.targetRef.kind");
        field(s, "target",
              arena_printf(s->arena, "%s %s", kind, ref_text(s, s->first, "metadata.targetRef")));
    }
}

static void tell_env(struct story *s, const struct tree_node *run)
{
    const struct tree_node *names = tree_member(run, "envNames");
    struct buf b;
    buf_init(&b, TEXT_MAX_BYTES);
    for (const struct tree_node *n = names ? names->first : NULL; n; n = n->next) {
        add_part(&b, ", ", n->text.ptr ? n->text.ptr : "");
    }
    const char *all = audit_node_text(run, "envNameCount");
    if (all[0]) {
        buf_printf(&b, " and more, %s together", all);
    }
    field_of_buf(s, "env names", &b);
}

static void tell_command(struct story *s)
{
    const struct tree_node *run = audit_line_at(s->first, "cordium.run");
    char size[AUDIT_AMOUNT_SIZE];
    struct buf how;
    if (!run) {
        return;
    }
    audit_bytes_text(audit_node_number(run, "commandBytes"), size);
    field(s, "command",
          arena_printf(s->arena, "%s, SHA-256 %s", size, audit_node_text(run, "commandSHA256")));
    page_styled_field(s->page, "", OUTPUT_BOLD, audit_node_text(run, "command"));
    buf_init(&how, TEXT_MAX_BYTES);
    add_part(&how, ", ", audit_node_is(run, "asRoot") ? "as root" : "");
    add_part(&how, ", ", audit_node_is(run, "hasStdin") ? "with standard input" : "");
    add_part(&how, ", ", audit_node_is(run, "isTerminal") ? "in a terminal" : "");
    const char *folder = audit_node_text(run, "workingDir");
    if (folder[0]) {
        add_part(&how, ", ", "in ");
        buf_add_cstr(&how, folder);
    }
    field_of_buf(s, "run", &how);
    tell_env(s, run);
}

/* --- why --- */

static void tell_decision(struct story *s)
{
    const struct audit_line *l = s->first;
    const Ext__AuditRecord *r = l->record;
    bool is_denied = strcmp(r->decision, "DENIED") == 0;
    struct buf b;
    if (!r->decision[0]) {
        return;
    }
    page_styled_field(s->page, "decision", is_denied ? OUTPUT_RED : OUTPUT_GREEN, r->decision);
    buf_init(&b, TEXT_MAX_BYTES);
    add_part(&b, "", r->reason);
    if (r->policy[0]) {
        buf_printf(&b, ": policy '%s'", r->policy);
        buf_printf(&b, r->rule[0] ? ", rule '%s'" : "%s", r->rule);
    }
    const char *attached = audit_line_text(l, "cordium.attachedTo");
    const char *version = audit_line_text(l, "cordium.policySetVersion");
    buf_printf(&b, attached[0] ? ", attached to %s" : "%s", attached);
    buf_printf(&b, version[0] ? "; policy set %s" : "%s", version);
    field_of_buf(s, "reason", &b);
    field(s, "detail", audit_line_text(l, "cordium.detail"));
    buf_init(&b, TEXT_MAX_BYTES);
    add_part(&b, "", audit_line_text(l, "cordium.refusal.code"));
    add_part(&b, ": ", audit_line_text(l, "cordium.refusal.text"));
    field_of_buf(s, "refusal", &b);
}

/* --- limits and layers --- */

static bool ends_with(const char *text, const char *end)
{
    return str_ends_with(str_from(text), str_from(end));
}

/* "memoryMegabytes", 512 is "memory 512 MiB". */
static void add_limit(struct buf *b, const char *name, double value, const char *text)
{
    static const char *const units[] = {"Ms", "Megabytes", "Bytes", "Millicores"};
    char amount[AUDIT_AMOUNT_SIZE];
    char stem[NAME_SIZE];
    char words[NAME_SIZE];
    size_t unit = 0;
    while (unit < 4 && !ends_with(name, units[unit])) {
        unit++;
    }
    size_t suffix = unit < 4 ? strlen(units[unit]) : 0;
    (void)snprintf(amount, sizeof amount, "%.30s", text);
    if (value == 0) {
        (void)snprintf(amount, sizeof amount, "unlimited");
    } else if (unit == 0) {
        audit_duration_text(value, amount);
    } else if (unit == 1) {
        audit_bytes_text(value * 1024 * 1024, amount);
    } else if (unit == 2) {
        audit_bytes_text(value, amount);
    } else if (unit == 3) {
        (void)snprintf(amount, sizeof amount, "%.3g core%s", value / 1000,
                       value == 1000 ? "" : "s");
    }
    (void)snprintf(stem, sizeof stem, "%.*s", (int)(strlen(name) - suffix), name);
    buf_add_cstr(b, b->len > 0 ? ", " : "");
    buf_printf(b, "%s%s %s", spell(stem, words), unit == 0 ? " time" : "", amount);
}

/* The limits that one source set. */
static void tell_limits_of(struct story *s, const struct tree_node *limits, const char *set_by,
                           const char *label)
{
    struct buf b;
    char words[NAME_SIZE];
    buf_init(&b, TEXT_MAX_BYTES);
    for (const struct tree_node *n = limits->first; n; n = n->next) {
        if (strcmp(audit_node_text(n, "setBy"), set_by) == 0) {
            add_limit(&b, n->key.ptr, audit_node_number(n, "value"), audit_node_text(n, "value"));
        }
    }
    if (b.len > 0) {
        buf_printf(&b, " (set by %s)", spell(set_by, words));
    }
    field_of_buf(s, label, &b);
}

static bool is_told_before(const struct tree_node *limits, const struct tree_node *until)
{
    for (const struct tree_node *n = limits->first; n != until; n = n->next) {
        if (strcmp(audit_node_text(n, "setBy"), audit_node_text(until, "setBy")) == 0) {
            return true;
        }
    }
    return false;
}

static void tell_limits(struct story *s)
{
    const struct tree_node *own = audit_line_at(s->first, "cordium.run.limits");
    const struct tree_node *workspaces = audit_line_at(s->first, "cordium.limits");
    const char *label = "limits";
    const struct tree_node *given =
        s->end ? audit_line_at(s->end, "cordium.outcome.workspaceLimits") : NULL;
    workspaces = given ? NULL : workspaces;
    own = given ? given : own;
    for (const struct tree_node *n = own ? own->first : NULL; n; n = n->next) {
        if (!is_told_before(own, n)) {
            tell_limits_of(s, own, audit_node_text(n, "setBy"), label);
            label = "";
        }
    }
    struct buf b;
    buf_init(&b, TEXT_MAX_BYTES);
    for (const struct tree_node *n = workspaces ? workspaces->first : NULL; n; n = n->next) {
        add_limit(&b, n->key.ptr, audit_node_number(workspaces, n->key.ptr),
                  audit_node_text(workspaces, n->key.ptr));
    }
    if (b.len > 0) {
        buf_add_cstr(&b, " (of the workspace)");
    }
    field_of_buf(s, label, &b);
}

static void tell_isolation(struct story *s)
{
    const struct tree_node *layers =
        s->end ? audit_line_at(s->end, "cordium.outcome.isolation") : NULL;
    struct buf b;
    buf_init(&b, TEXT_MAX_BYTES);
    for (const struct tree_node *n = layers ? layers->first : NULL; n; n = n->next) {
        add_part(&b, ", ", n->text.ptr ? n->text.ptr : "");
    }
    field_of_buf(s, "isolation", &b);
}

/* --- when --- */

/* "the workspace ended: ERROR, The gateway was restarted …" */
static const char *workspace_text(struct story *s, const struct audit_line *l)
{
    const char *event = l->record->event;
    const char *failure = audit_line_text(l, "cordium.failure.message");
    if (strcmp(event, "WORKSPACE_RUNNING") == 0) {
        return "the workspace runs";
    }
    return arena_printf(s->arena, "the %s ended: %s%s%s",
                        strcmp(event, "BUILD_END") == 0 ? "build" : "workspace",
                        audit_line_text(l, "cordium.stopReason"), failure[0] ? ", " : "", failure);
}

static const char *event_text(struct story *s, const struct audit_line *l)
{
    const Ext__AuditRecord *r = l->record;
    bool is_own = strcmp(r->request_id, s->first->record->request_id) == 0;
    if (!l->tree) {
        return "a line that is none of ours, such as a crash leaves";
    }
    if (audit_line_is_decision(l) && is_own) {
        return arena_printf(s->arena, "asked, %s",
                            strcmp(r->decision, "DENIED") == 0 ? "denied" : "allowed");
    }
    if (audit_line_is_end(l) && is_own && !r->code[0]) {
        return arena_printf(s->arena, "ended (%s): %s", audit_line_text(l, "cordium.end"),
                            audit_line_text(l, "cordium.outcome.detail"));
    }
    if (audit_line_is_end(l) && is_own) {
        char took[AUDIT_AMOUNT_SIZE];
        audit_duration_text(audit_line_number(l, "cordium.durationMilliseconds"), took);
        const char *reason = audit_line_text(l, "cordium.endReason");
        return arena_printf(s->arena, "ended (%s%s%s) with %s after %s",
                            audit_line_text(l, "cordium.end"), reason[0] ? ", " : "", reason,
                            r->code, took);
    }
    if (strcmp(r->kind, "WorkspaceLog") == 0) {
        return workspace_text(s, l);
    }
    const char *what = r->method[0] ? audit_method_text(r->method) : r->kind;
    return arena_printf(s->arena, "%s %s%s%s%s%s", what, r->event, r->decision[0] ? ", " : "",
                        r->decision, r->code[0] ? ", " : "", r->code);
}

/* "0 ms", "+ 1.54 s" since the first line. */
static void tell_events(struct story *s)
{
    const Google__Protobuf__Timestamp *start = s->lines[0].record->time;
    page_heading(s->page, "Timeline (UTC)");
    for (size_t i = 0; i < s->count; i++) {
        const struct audit_line *l = &s->lines[i];
        const Google__Protobuf__Timestamp *t = l->record->time;
        char at[AUDIT_TIME_SIZE];
        char since[AUDIT_AMOUNT_SIZE] = "";
        audit_time_text(t, false, at);
        if (t && start) {
            audit_duration_text((double)(t->seconds - start->seconds) * 1000 +
                                    (double)(t->nanos - start->nanos) / 1e6,
                                since);
        }
        const char *text = event_text(s, l);
        s->is_full = s->is_full || !text;
        field(s, at[0] ? at : "-",
              arena_printf(s->arena, "%s%-10s line %" PRIu64 "  %s",
                           i > 0 && since[0] ? "+ " : "  ", i > 0 ? since : "", l->record->sequence,
                           text ? text : ""));
    }
}

/* --- what became of it --- */

static void add_usage(struct buf *b, const struct tree_node *n)
{
    char amount[AUDIT_AMOUNT_SIZE];
    char stem[NAME_SIZE];
    char words[NAME_SIZE];
    const char *name = n->key.ptr;
    double value = n->type == TREE_NUMBER ? strtod(n->text.ptr, NULL) : 0;
    size_t suffix = 0;
    (void)snprintf(amount, sizeof amount, "%.30s", n->text.ptr ? n->text.ptr : "");
    if (ends_with(name, "Us") || ends_with(name, "Ms")) {
        suffix = 2;
        audit_duration_text(ends_with(name, "Us") ? value / 1000 : value, amount);
    } else if (ends_with(name, "Bytes")) {
        suffix = 5;
        audit_bytes_text(value, amount);
    }
    (void)snprintf(stem, sizeof stem, "%.*s", (int)(strlen(name) - suffix), name);
    buf_add_cstr(b, b->len > 0 ? ", " : "");
    buf_printf(b, "%s %s", spell(stem, words), amount);
}

static void tell_usage(struct story *s, const struct tree_node *usage)
{
    struct buf b;
    buf_init(&b, TEXT_MAX_BYTES);
    for (const struct tree_node *n = usage ? usage->first : NULL; n; n = n->next) {
        if (audit_node_number(usage, n->key.ptr) != 0) {
            add_usage(&b, n);
        }
    }
    field_of_buf(s, "usage", &b);
}

/* "10.0.0.1:80 TCP, 3 packets (DENY_RULE)" */
static void tell_refused_destinations(struct story *s, const struct tree_node *list)
{
    const char *label = "network";
    for (const struct tree_node *n = list && list->type == TREE_LIST ? list->first : NULL; n;
         n = n->next) {
        field(s, label,
              arena_printf(s->arena, "refused %s:%s %s, %s packets (%s)",
                           audit_node_text(n, "address"), audit_node_text(n, "port"),
                           audit_node_text(n, "protocol"), audit_node_text(n, "packets"),
                           audit_node_text(n, "reason")));
        label = "";
    }
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++) {
        if (strcmp(*names, name) == 0) {
            return true;
        }
    }
    return false;
}

/* The facts of an outcome that mean something: not what is 0 or false, and not what is told
 * elsewhere. */
static void tell_facts(struct story *s, const struct tree_node *outcome)
{
    static const char *const elsewhere[] = {
        "outcome", "exitCode", "signal",       "usage",  "isolation",       "limits",
        "diff",    "runId",    "destinations", "detail", "workspaceLimits", NULL};
    char words[NAME_SIZE];
    struct buf b;
    buf_init(&b, TEXT_MAX_BYTES);
    for (const struct tree_node *n = outcome->first; n; n = n->next) {
        const char *text = audit_node_text(outcome, n->key.ptr);
        if (is_one_of(n->key.ptr, elsewhere) || !text[0] || strcmp(text, "0") == 0 ||
            strcmp(text, "false") == 0) {
            continue;
        }
        if (n->type == TREE_NUMBER) {
            add_usage(&b, n);
        } else {
            add_part(&b, ", ", spell(n->key.ptr, words));
            buf_printf(&b, n->type == TREE_BOOL ? "%s" : ": %s", n->type == TREE_BOOL ? "" : text);
        }
    }
    field_of_buf(s, "facts", &b);
}

/* ", 2.8 KiB sent"; nothing when the line does not say. */
static const char *amount_of(struct story *s, const char *member, const char *verb)
{
    char size[AUDIT_AMOUNT_SIZE];
    if (!audit_line_text(s->end, member)[0]) {
        return "";
    }
    audit_bytes_text(audit_line_number(s->end, member), size);
    return arena_printf(s->arena, ", %s %s", size, verb);
}

static void tell_outcome(struct story *s)
{
    const struct tree_node *o = s->end ? audit_line_at(s->end, "cordium.outcome") : NULL;
    if (!s->end) {
        return;
    }
    page_heading(s->page, "Outcome");
    field(s, "answer",
          arena_printf(s->arena, "%s%s%s", s->end->record->code[0] ? s->end->record->code : "none",
                       amount_of(s, "cordium.bytesIn", "received"),
                       amount_of(s, "cordium.bytesOut", "sent")));
    if (!o) {
        return;
    }
    const char *name = audit_node_text(o, "outcome");
    const char *code = audit_node_text(o, "exitCode");
    const char *signal = audit_node_text(o, "signal");
    bool is_fine = strcmp(name, "exited") == 0 && strcmp(code, "0") == 0;
    const char *text = strcmp(name, "exited") == 0 ? arena_printf(s->arena, "exited with %s", code)
                       : signal[0] ? arena_printf(s->arena, "%s (signal %s)", name, signal)
                                   : name;
    s->is_full = s->is_full || !text;
    page_styled_field(s->page, "program", is_fine ? OUTPUT_GREEN : OUTPUT_YELLOW, text ? text : "");
    field(s, "detail", audit_node_text(o, "detail"));
    field(s, "run id", audit_node_text(o, "runId"));
    tell_facts(s, o);
    tell_usage(s, tree_member(o, "usage"));
    tell_refused_destinations(s, tree_member(o, "destinations"));
    field(s, "diff", audit_node_text(o, "diff"));
}

/* What network rules refused meanwhile is in lines of its own. */
static void tell_network(struct story *s)
{
    for (size_t i = 0; i < s->count; i++) {
        tell_refused_destinations(s, audit_line_at(&s->lines[i], "cordium.destinations"));
    }
}

/* --- lines of other kinds --- */

/* All scalars of a tree, "name.of.member value"; the depth is bounded by the reader's. */
static void tell_members(struct story *s, const struct tree_node *node, const char *path)
{
    for (const struct tree_node *n = node->first; n; n = n->next) {
        const char *between = path[0] && n->key.ptr ? "." : "";
        const char *own =
            arena_printf(s->arena, "%s%s%s", path, between, n->key.ptr ? n->key.ptr : "");
        bool is_inner = n->type == TREE_MAP || n->type == TREE_LIST;
        if (!own) {
            s->is_full = true;
            return;
        }
        if (is_inner) {
            tell_members(s, n, own);
        } else {
            field(s, own, n->text.ptr ? n->text.ptr : "");
        }
    }
}

static void tell_other(struct story *s)
{
    static const char *const parts[] = {"metadata", "cordium", "checkpoint", "tombstone", "gap"};
    const struct audit_line *l = s->first;
    field(s, "chain",
          arena_printf(s->arena, "line %" PRIu64 ", after %s", l->record->sequence,
                       audit_line_text(l, "prev")));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct tree_node *node = audit_line_at(l, parts[i]);
        if (node) {
            tell_members(s, node, i < 2 ? "" : parts[i]);
        }
    }
    field(s, "hash", audit_line_text(l, "sha256"));
    if (!l->tree) {
        field(s, "text", l->record->line);
    }
}

/* --- the whole --- */

static void choose_lines(struct story *s)
{
    s->first = &s->lines[0];
    for (size_t i = s->count; i-- > 0;) {
        if (audit_line_is_decision(&s->lines[i])) {
            s->first = &s->lines[i];
        }
    }
    for (size_t i = 0; i < s->count; i++) {
        const struct audit_line *l = &s->lines[i];
        bool is_own_end = audit_line_is_end(l) &&
                          strcmp(l->record->request_id, s->first->record->request_id) == 0;
        if (is_own_end || strcmp(l->record->event, "RUN_END") == 0) {
            s->end = l;
        }
    }
}

static void tell_title(struct story *s)
{
    const Ext__AuditRecord *r = s->first->record;
    char at[AUDIT_TIME_SIZE];
    audit_time_text(r->time, true, at);
    const char *what = r->method[0] ? audit_method_text(r->method) : r->kind;
    const char *text = arena_printf(s->arena, "%s, %s UTC", what[0] ? what : "Line", at);
    page_heading(s->page, text ? text : "");
    s->is_full = s->is_full || !text;
    field(s, "request", r->request_id);
    field(s, "audit id", r->id);
}

bool audit_story_print(const Ext__AuditStory *story, struct arena *arena, struct page *page)
{
    struct story s = {.arena = arena, .page = page, .count = story->n_records};
    s.lines = arena_calloc(arena, s.count + 1, sizeof *s.lines);
    if (!s.lines || s.count == 0) {
        return s.lines;
    }
    for (size_t i = 0; i < s.count; i++) {
        s.lines[i] = audit_line_of(story->records[i], arena);
    }
    choose_lines(&s);
    tell_title(&s);
    bool is_request =
        audit_line_at(s.first, "entry") || strcmp(s.first->record->kind, "RunLog") == 0;
    if (is_request) {
        tell_who(&s);
        add_objects(&s);
        tell_command(&s);
        tell_decision(&s);
        tell_limits(&s);
        tell_isolation(&s);
        tell_events(&s);
        tell_outcome(&s);
        tell_network(&s);
    } else {
        tell_other(&s);
    }
    if (!is_request && s.count > 1) {
        tell_events(&s);
    }
    if (story->is_cut) {
        page_heading(page, "There are more lines: list them with `cordium audit list --request`");
    }
    return !s.is_full;
}
