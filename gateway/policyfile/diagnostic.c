#include "gateway/policyfile/diagnostic.h"

#include <stdlib.h>

#include "gateway/version.h"
#include "policy/base/json_out.h"
#include "policy/base/utf8.h"

/* Codes that come before the linter has a policy to look at. */
static const struct policy_finding_kind file_kinds[] = {
    {"file-unreadable", POLICY_SEVERITY_ERROR, "A file cannot be read"},
    {"yaml-syntax", POLICY_SEVERITY_ERROR, "The YAML is not well-formed"},
    {"yaml-tag", POLICY_SEVERITY_ERROR,
     "An unquoted expression that begins with '!', '&' or '*' is a YAML tag, anchor or alias"},
    {"yaml-colon", POLICY_SEVERITY_ERROR,
     "': ' inside an unquoted expression begins a mapping in YAML"},
    {"yaml-comment", POLICY_SEVERITY_ERROR,
     "' #' inside an unquoted expression begins a comment in YAML"},
    {"yaml-escape", POLICY_SEVERITY_ERROR,
     "A backslash in double quotes is an escape of YAML before the expression sees it"},
    {"yaml-tab", POLICY_SEVERITY_ERROR, "YAML is indented with spaces, never with tabs"},
    {"yaml-block", POLICY_SEVERITY_ERROR,
     "The text of a block is not indented deeper than its key"},
    {"yaml-scalar", POLICY_SEVERITY_WARNING,
     "An unquoted value is text here and something else for other readers of YAML"},
    {"yaml-quote", POLICY_SEVERITY_ERROR,
     "An unquoted expression that begins with a quote ends at the next one in YAML"},
    {"yaml-reserved", POLICY_SEVERITY_ERROR,
     "An unquoted expression begins with a character that YAML reserves"},
    {"document-invalid", POLICY_SEVERITY_ERROR, "A document does not have the form of its kind"},
    {"kind-unknown", POLICY_SEVERITY_ERROR, "A document is of a kind that apply does not take"},
    {"expression-invalid", POLICY_SEVERITY_ERROR, "An expression does not compile"},
    {"policy-invalid", POLICY_SEVERITY_ERROR, "A policy breaks a rule of the model"},
    {"policy-duplicate", POLICY_SEVERITY_ERROR, "Two documents have the same kind and name"},
    {"parent-missing", POLICY_SEVERITY_WARNING, "The parent of a policy is not in the files"},
    {"attached-missing", POLICY_SEVERITY_WARNING, "An attached policy is not in the files"},
    {"test-invalid", POLICY_SEVERITY_ERROR, "A test of policies cannot be run"},
};

enum { FILE_KIND_COUNT = sizeof file_kinds / sizeof file_kinds[0] };

const char *diagnostic_code_at(size_t i, enum policy_severity *ret_severity,
                               const char **ret_summary)
{
    if (i >= FILE_KIND_COUNT + POLICY_FINDING_COUNT) {
        return NULL;
    }
    const struct policy_finding_kind *kind =
        i < FILE_KIND_COUNT ? &file_kinds[i]
                            : policy_finding_kind((enum policy_finding_code)(i - FILE_KIND_COUNT));
    *ret_severity = kind->severity;
    *ret_summary = kind->summary;
    return kind->code;
}

void diagnostics_init(struct diagnostics *d, struct arena *arena)
{
    *d = (struct diagnostics){.arena = arena};
}

bool diagnostics_is_full(const struct diagnostics *d)
{
    return d->count >= DIAGNOSTICS_MAX;
}

static bool make_room(struct diagnostics *d)
{
    struct diagnostic *items =
        arena_grow(d->arena, d->items, d->count, &d->room, sizeof *items, 32);
    d->items = items ? items : d->items;
    return items != NULL;
}

void diagnostics_add(struct diagnostics *d, const struct diagnostic *item)
{
    d->by_severity[item->severity]++;
    if (diagnostics_is_full(d)) {
        d->is_cut = true;
        return;
    }
    const char *text = arena_strdup(d->arena, item->text);
    const char *remedy = arena_strdup(d->arena, item->remedy ? item->remedy : "");
    const char *subject = arena_strdup(d->arena, item->subject ? item->subject : "");
    if (!text || !remedy || !subject || !make_room(d)) {
        d->is_cut = true;
        return;
    }
    struct diagnostic *to = &d->items[d->count++];
    *to = *item;
    to->text = text;
    to->remedy = remedy;
    to->subject = subject;
    to->length = item->length ? item->length : 1;
}

static int compare(const void *x, const void *y)
{
    const struct diagnostic *a = *(const struct diagnostic *const *)x;
    const struct diagnostic *b = *(const struct diagnostic *const *)y;
    int by_file = strcmp(a->file, b->file);
    if (by_file) {
        return by_file;
    }
    if (a->line != b->line) {
        return a->line < b->line ? -1 : 1;
    }
    if (a->column != b->column) {
        return a->column < b->column ? -1 : 1;
    }
    return a < b ? -1 : a > b;
}

void diagnostics_sort(struct diagnostics *d)
{
    const struct diagnostic **order = arena_calloc(d->arena, d->count, sizeof(void *));
    struct diagnostic *sorted = arena_calloc(d->arena, d->count, sizeof *sorted);
    if (!order || !sorted || d->count == 0) {
        return;
    }
    for (size_t i = 0; i < d->count; i++) {
        order[i] = &d->items[i];
    }
    qsort(order, d->count, sizeof order[0], compare);
    for (size_t i = 0; i < d->count; i++) {
        sorted[i] = *order[i];
    }
    d->items = sorted;
    d->room = d->count;
}

/* Bytes from a file for a terminal: what is no text is shown as '?', so that nothing in it is taken
 * for a command, U+009B neither. */
static void add_visible(struct buf *out, struct str s)
{
    while (s.len > 0) {
        uint32_t point;
        size_t len = utf8_decode(s, &point);
        bool is_text = len > 0 && (point >= ' ' || point == '\t') && (point < 127 || point > 159);
        len = len > 0 ? len : 1;
        buf_add(out, is_text ? s.ptr : "?", is_text ? len : 1);
        s = str_make(s.ptr + len, s.len - len);
    }
}

void diagnostic_underline(const struct diagnostic *item, struct buf *out)
{
    size_t at = 0;
    for (uint32_t c = 1; c < item->column && at < item->source.len; c++) {
        buf_add_u8(out, item->source.ptr[at] == '\t' ? '\t' : ' ');
        at++;
        while (at < item->source.len && ((unsigned char)item->source.ptr[at] & 0xC0) == 0x80) {
            at++;
        }
    }
    buf_add_u8(out, '^');
    for (uint32_t i = 1; i < item->length && at + i < item->source.len; i++) {
        buf_add_u8(out, '~');
    }
}

static void print_caret(const struct diagnostic *item, struct buf *out)
{
    buf_printf(out, "%5u | ", item->line);
    add_visible(out, item->source);
    buf_add_cstr(out, "\n      | ");
    diagnostic_underline(item, out);
    buf_add_u8(out, '\n');
}

static void print_text(const struct diagnostic *item, struct buf *out)
{
    add_visible(out, str_from(item->file[0] ? item->file : "-"));
    if (item->line) {
        buf_printf(out, ":%u:%u", item->line, item->column);
    }
    buf_printf(out, ": %s: ", policy_severity_name(item->severity));
    add_visible(out, str_make(item->text, strcspn(item->text, "\n")));
    if (item->remedy[0]) {
        buf_add_cstr(out, "; ");
        add_visible(out, str_from(item->remedy));
    }
    buf_printf(out, " [%s]\n", item->code);
    if (item->line && item->source.len > 0 && item->source.len <= DIAGNOSTIC_SOURCE_MAX_BYTES) {
        print_caret(item, out);
    }
}

static void print_json(const struct diagnostics *d, struct buf *out)
{
    struct json_out j = json_out_to(out);
    json_begin_object(&j);
    json_key(&j, "diagnostics");
    json_begin_array(&j);
    for (size_t i = 0; i < d->count; i++) {
        const struct diagnostic *item = &d->items[i];
        json_begin_object(&j);
        json_member_string(&j, "file", item->file);
        json_member_int(&j, "line", item->line);
        json_member_int(&j, "column", item->column);
        json_member_int(&j, "length", item->length);
        json_member_string(&j, "severity", policy_severity_name(item->severity));
        json_member_string(&j, "code", item->code);
        json_member_string(&j, "text", item->text);
        json_member_string_opt(&j, "remedy", item->remedy);
        json_member_string_opt(&j, "subject", item->subject);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_member_int(&j, "errors", (int64_t)d->by_severity[POLICY_SEVERITY_ERROR]);
    json_member_int(&j, "warnings", (int64_t)d->by_severity[POLICY_SEVERITY_WARNING]);
    json_member_int(&j, "notes", (int64_t)d->by_severity[POLICY_SEVERITY_NOTE]);
    json_end_object(&j);
    buf_add_u8(out, '\n');
}

/* {"text": ...} */
static void sarif_message(struct json_out *j, const char *key, const char *text, const char *remedy)
{
    json_key(j, key);
    json_begin_object(j);
    struct buf b;
    buf_init(&b, 8192);
    buf_add_cstr(&b, text);
    if (remedy[0]) {
        buf_add_cstr(&b, "; ");
        buf_add_cstr(&b, remedy);
    }
    json_key(j, "text");
    json_string(j, buf_str(&b));
    buf_free(&b);
    json_end_object(j);
}

static void sarif_tool(struct json_out *j)
{
    enum policy_severity severity;
    const char *summary;
    const char *code;
    json_key(j, "tool");
    json_begin_object(j);
    json_key(j, "driver");
    json_begin_object(j);
    json_member_string(j, "name", "cordium policy check");
    json_member_string(j, "version", GATEWAY_VERSION);
    json_key(j, "rules");
    json_begin_array(j);
    for (size_t i = 0; (code = diagnostic_code_at(i, &severity, &summary)); i++) {
        json_begin_object(j);
        json_member_string(j, "id", code);
        sarif_message(j, "shortDescription", summary, "");
        json_key(j, "defaultConfiguration");
        json_begin_object(j);
        json_member_string(j, "level", policy_severity_name(severity));
        json_end_object(j);
        json_end_object(j);
    }
    json_end_array(j);
    json_end_object(j);
    json_end_object(j);
}

/* A path as the reference of a URI (RFC 3986): what is not unreserved or '/' is escaped. */
static void sarif_uri(struct json_out *j, const char *path)
{
    static const char digits[] = "0123456789ABCDEF";
    struct buf b;
    buf_init(&b, 16384);
    for (const char *p = path; *p; p++) {
        unsigned char c = (unsigned char)*p;
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || strchr("/-._~", c);
        if (is_plain) {
            buf_add_u8(&b, c);
        } else {
            buf_printf(&b, "%%%c%c", digits[c >> 4], digits[c & 15]);
        }
    }
    json_key(j, "uri");
    json_string(j, buf_str(&b));
    buf_free(&b);
}

static void sarif_result(struct json_out *j, const struct diagnostic *item)
{
    json_begin_object(j);
    json_member_string(j, "ruleId", item->code);
    json_member_string(j, "level", policy_severity_name(item->severity));
    sarif_message(j, "message", item->text, item->remedy);
    json_key(j, "locations");
    json_begin_array(j);
    json_begin_object(j);
    json_key(j, "physicalLocation");
    json_begin_object(j);
    json_key(j, "artifactLocation");
    json_begin_object(j);
    sarif_uri(j, item->file);
    json_end_object(j);
    if (item->line) {
        json_key(j, "region");
        json_begin_object(j);
        json_member_int(j, "startLine", item->line);
        json_member_int(j, "startColumn", item->column);
        json_member_int(j, "endColumn", (int64_t)item->column + item->length);
        json_end_object(j);
    }
    json_end_object(j);
    json_end_object(j);
    json_end_array(j);
    json_end_object(j);
}

static void print_sarif(const struct diagnostics *d, struct buf *out)
{
    struct json_out j = json_out_to(out);
    json_begin_object(&j);
    json_member_string(&j, "version", "2.1.0");
    json_member_string(&j, "$schema",
                       "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
                       "sarif-schema-2.1.0.json");
    json_key(&j, "runs");
    json_begin_array(&j);
    json_begin_object(&j);
    sarif_tool(&j);
    json_member_string(&j, "columnKind", "unicodeCodePoints");
    json_key(&j, "results");
    json_begin_array(&j);
    for (size_t i = 0; i < d->count; i++) {
        sarif_result(&j, &d->items[i]);
    }
    json_end_array(&j);
    json_end_object(&j);
    json_end_array(&j);
    json_end_object(&j);
    buf_add_u8(out, '\n');
}

void diagnostics_print(const struct diagnostics *d, enum diagnostic_format format, struct buf *out)
{
    if (format == DIAGNOSTIC_JSON) {
        print_json(d, out);
        return;
    }
    if (format == DIAGNOSTIC_SARIF) {
        print_sarif(d, out);
        return;
    }
    for (size_t i = 0; i < d->count; i++) {
        print_text(&d->items[i], out);
    }
}
