#include "gateway/cli/audit_filter.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gateway/cli/field.h"
#include "gateway/cli/time_option.h"
#include "gateway/rpc/codec.h"
#include "policy/base/utf8.h"

enum { TEXT_MIN_BYTES = 3, TEXT_MAX_BYTES = 200, WORD_MAX_BYTES = 64, CHECK_ARENA_BYTES = 1 << 20 };

static const char *const decisions[] = {"ALLOWED", "DENIED", NULL};

/* Those of exec_outcome_name(). */
static const char *const outcomes[] = {"exited",    "signaled",   "timed_out",
                                       "cpu_limit", "oom_killed", "output_limit",
                                       "cancelled", "lost",       NULL};

static const char *const kinds[] = {
    "AccessLog", "DaemonLog",      "RunLog",          "NetworkLog",  "WorkspaceLog",
    "AuditGap",  "AuditTombstone", "AuditCheckpoint", "AuditErased", NULL};

/* As gateway/audit/README.md lists them. */
static const char *const events[] = {
    "DECISION",      "END",         "RUN_END", "NETWORK_DENIED", "WORKSPACE_RUNNING",
    "WORKSPACE_END", "BUILD_END",   "START",   "STOP",           "CONNECTED",
    "DISCONNECTED",  "AUDIT_ERASE", NULL};

enum form {
    FORM_ANY,   /* a name, as it is */
    FORM_WORD,  /* one of `words`, in any case */
    FORM_UPPER, /* CAPITALS_AND_SUCH; the server knows which there are */
    FORM_CODE,  /* of gRPC */
};

static const struct member {
    int key;
    const char *option;
    const char *field; /* of AuditFilter */
    enum form form;
    const char *const *words;
} members[] = {
    {OPT_WHERE_USER, "--user", "user", FORM_ANY, NULL},
    {OPT_WHERE_SESSION, "--session", "session", FORM_ANY, NULL},
    {OPT_WHERE_SPACE, "--space", "space", FORM_ANY, NULL},
    {OPT_WHERE_TEMPLATE, "--template", "template", FORM_ANY, NULL},
    {OPT_WHERE_WORKSPACE, "--workspace", "workspace", FORM_ANY, NULL},
    {OPT_WHERE_METHOD, "--method", "method", FORM_ANY, NULL},
    {OPT_WHERE_DECISION, "--decision", "decision", FORM_WORD, decisions},
    {OPT_WHERE_REASON, "--reason", "reason", FORM_UPPER, NULL},
    {OPT_WHERE_POLICY, "--policy", "policy", FORM_ANY, NULL},
    {OPT_WHERE_RULE, "--rule", "rule", FORM_ANY, NULL},
    {OPT_WHERE_OUTCOME, "--outcome", "outcome", FORM_WORD, outcomes},
    {OPT_WHERE_CODE, "--code", "code", FORM_CODE, NULL},
    {OPT_WHERE_KIND, "--kind", "kind", FORM_WORD, kinds},
    {OPT_WHERE_EVENT, "--event", "event", FORM_WORD, events},
    {OPT_WHERE_RUN, "--run", "run_id", FORM_ANY, NULL},
    {OPT_WHERE_REQUEST, "--request", "request_id", FORM_ANY, NULL},
    {OPT_WHERE_PEER, "--peer", "peer", FORM_ANY, NULL},
};

static int refuse_word(const struct member *m, const char *value, struct error *err)
{
    char list[256] = "";
    size_t used = 0;
    for (size_t i = 0; m->words[i] && used < sizeof list; i++) {
        const char *between = i == 0 ? "" : m->words[i + 1] ? ", " : " or ";
        int n = snprintf(list + used, sizeof list - used, "%s%s", between, m->words[i]);
        used += n > 0 ? (size_t)n : 0;
    }
    for (char *c = list; m->words == decisions && *c; c++) {
        *c = (char)tolower((unsigned char)*c);
    }
    return error_set(err, STATUS_INVALID_ARGUMENT, "%s '%s': %s", m->option, value, list);
}

/* "permission-denied" and "permission_denied" are PERMISSION_DENIED; false: it cannot be such. */
static bool to_upper(const char *value, char ret[WORD_MAX_BYTES])
{
    size_t n = strlen(value);
    if (n == 0 || n >= WORD_MAX_BYTES) {
        return false;
    }
    for (size_t i = 0; i <= n; i++) {
        unsigned char c = (unsigned char)value[i];
        if (c && !isalnum(c) && c != '_' && c != '-') {
            return false;
        }
        ret[i] = (char)(c == '-' ? '_' : toupper(c));
    }
    return true;
}

static int normalise(const struct member *m, const char *value, char word[WORD_MAX_BYTES],
                     const char **ret, struct error *err)
{
    *ret = value;
    if (!value[0]) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s '': a value is needed", m->option);
    }
    if (m->form == FORM_WORD) {
        for (size_t i = 0; m->words[i]; i++) {
            if (strcasecmp(m->words[i], value) == 0) {
                *ret = m->words[i];
                return 0;
            }
        }
        return refuse_word(m, value, err);
    }
    if (m->form == FORM_ANY) {
        return 0;
    }
    bool is_word = to_upper(value, word);
    *ret = word;
    if (is_word && (m->form == FORM_UPPER || status_from_name(word) >= 0)) {
        return 0;
    }
    return m->form == FORM_CODE
               ? error_set(err, STATUS_INVALID_ARGUMENT,
                           "%s '%s': a status of gRPC: OK, PERMISSION_DENIED, NOT_FOUND, "
                           "UNAUTHENTICATED, RESOURCE_EXHAUSTED ...",
                           m->option, value)
               : error_set(err, STATUS_INVALID_ARGUMENT,
                           "%s '%s': a word of letters and '_', such as POLICY_MATCH", m->option,
                           value);
}

static int no_memory(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

static int add_member(const struct argument_condition *c, struct arena *arena,
                      Ext__AuditFilter *filter, struct error *err)
{
    char word[WORD_MAX_BYTES];
    const char *value = NULL;
    const struct member *m = members;
    while (m->key != c->key) {
        m++; /* add_condition() sees to the keys that are not in the table */
    }
    if (!utf8_is_valid(str_from(c->value))) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s: the value is not UTF-8", m->option);
    }
    if (normalise(m, c->value, word, &value, err) < 0) {
        return -err->status;
    }
    return field_add_text(&filter->base, m->field, value, arena) ? 0 : no_memory(err);
}

static int add_time(const char *option, const char *value, int64_t now_seconds, struct arena *arena,
                    Google__Protobuf__Timestamp **to, struct error *err)
{
    int64_t seconds = 0;
    uint32_t nanos = 0;
    if (*to) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s '%s': there is one already", option,
                         value);
    }
    if (time_option_parse(option, value, now_seconds, &seconds, &nanos, err) < 0) {
        return -err->status;
    }
    if (seconds < 0 || seconds >= INT64_MAX / 1000000000) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "%s '%s': no time between 1970 and 2262",
                         option, value);
    }
    *to = CODEC_NEW(arena, Google__Protobuf__Timestamp, google__protobuf__timestamp);
    if (!*to) {
        return no_memory(err);
    }
    (*to)->seconds = seconds;
    (*to)->nanos = (int32_t)nanos;
    return 0;
}

static int set_in_workspace(const char *value, Ext__AuditFilter *filter, struct error *err)
{
    bool is_no = value && strcmp(value, "no") == 0;
    if (value && !is_no && strcmp(value, "yes") != 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "--in-workspace '%s': yes or no", value);
    }
    filter->has_in_workspace_case = EXT__AUDIT_FILTER__HAS_IN_WORKSPACE_IN_WORKSPACE;
    filter->in_workspace = !is_no;
    return 0;
}

static int add_condition(const struct argument_condition *c, int64_t now_seconds,
                         struct arena *arena, Ext__AuditFilter *filter, struct error *err)
{
    switch (c->key) {
    case OPT_WHERE_SINCE:
        return add_time("--since", c->value, now_seconds, arena, &filter->from, err);
    case OPT_WHERE_UNTIL:
        return add_time("--until", c->value, now_seconds, arena, &filter->to, err);
    case OPT_WHERE_IN_WORKSPACE:
        return set_in_workspace(c->value, filter, err);
    default:
        return add_member(c, arena, filter, err);
    }
}

static int check_order(const Ext__AuditFilter *f, struct error *err)
{
    if (f->from && f->to &&
        (f->from->seconds > f->to->seconds ||
         (f->from->seconds == f->to->seconds && f->from->nanos >= f->to->nanos))) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "--since is not before --until");
    }
    return 0;
}

static int set_text(const struct arguments *args, struct arena *arena, Ext__AuditFilter *filter,
                    struct error *err)
{
    if (args->words.count == 0) {
        return 0;
    }
    struct str text = str_from(args->words.items[0]);
    if (text.len < TEXT_MIN_BYTES || text.len > TEXT_MAX_BYTES || !utf8_is_valid(text)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "'%.200s': a text to look for is UTF-8 of %d to %d bytes", text.ptr,
                         TEXT_MIN_BYTES, TEXT_MAX_BYTES);
    }
    filter->text = arena_strndup(arena, text.ptr, text.len);
    return filter->text ? 0 : no_memory(err);
}

int audit_filter_make(const struct arguments *args, int64_t now_seconds, struct arena *arena,
                      Ext__AuditFilter **ret, struct error *err)
{
    Ext__AuditFilter *filter = CODEC_NEW(arena, Ext__AuditFilter, ext__audit_filter);
    if (!filter) {
        return no_memory(err);
    }
    for (size_t i = 0; i < args->where_count; i++) {
        if (add_condition(&args->where[i], now_seconds, arena, filter, err) < 0) {
            return -err->status;
        }
    }
    int status = check_order(filter, err);
    status = status < 0 ? status : set_text(args, arena, filter, err);
    if (status == 0) {
        *ret = filter;
    }
    return status;
}

int audit_filter_run(const struct arguments *args,
                     int (*body)(struct cli *cli, const struct arguments *args, int *exit_code,
                                 struct error *err))
{
    struct arena arena;
    struct error err = {0};
    Ext__AuditFilter *ignored = NULL;
    arena_init(&arena, CHECK_ARENA_BYTES);
    int status = audit_filter_make(args, time(NULL), &arena, &ignored, &err);
    arena_free(&arena);
    if (status < 0) {
        (void)cli_report(&err);
        return CLI_EXIT_USAGE;
    }
    return cli_run(args, body);
}
