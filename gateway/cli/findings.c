#include "gateway/cli/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gateway/text/json_reader.h"
#include "gateway/text/json_sink.h"
#include "gateway/text/yaml_out.h"

enum { OUTPUT_MAX_BYTES = 4 * 1024 * 1024 };

struct findings findings_in(struct arena *arena)
{
    return (struct findings){.arena = arena};
}

static void append(struct findings *f, struct finding finding)
{
    struct finding *new = arena_zalloc(f->arena, sizeof *new);
    bool is_problem = strcmp(finding.state, FINDING_PROBLEM) == 0;
    if (is_problem || !new || !finding.text) {
        f->problems++;
    }
    if (!new || !finding.text) {
        return;
    }
    *new = finding;
    *(f->last ? f->last : &f->first) = new;
    f->last = &new->next;
}

void findings_add(struct findings *f, const char *state, const char *subject, const char *format,
                  ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    append(f, (struct finding){state, subject, arena_strdup(f->arena, text), NULL});
}

int findings_add_json(struct findings *f, struct str json, struct error *err)
{
    const struct tree_node *tree = NULL;
    if (json_read(json, f->arena, &tree, err) < 0) {
        return -err->status;
    }
    const struct tree_node *list = tree_member(tree, "findings");
    if (!list || list->type != TREE_LIST) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "there is no list of findings in it");
    }
    for (const struct tree_node *item = list->first; item; item = item->next) {
        const struct tree_node *state = tree_member(item, "state");
        const struct tree_node *subject = tree_member(item, "subject");
        const struct tree_node *text = tree_member(item, "text");
        if (!state || !subject || !text || state->type != TREE_STRING ||
            subject->type != TREE_STRING || text->type != TREE_STRING) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "a finding lacks state, subject or text");
        }
        append(f, (struct finding){state->text.ptr, subject->text.ptr, text->text.ptr, NULL});
    }
    return 0;
}

static void write_member(const struct sink *sink, const char *key, const char *value)
{
    sink->ops->key(sink->state, str_from(key));
    sink->ops->string(sink->state, str_from(value));
}

static void write_all(const struct findings *f, const struct sink *sink)
{
    char count[24];
    (void)snprintf(count, sizeof count, "%zu", f->problems);
    sink->ops->begin_map(sink->state);
    sink->ops->key(sink->state, STR("findings"));
    sink->ops->begin_list(sink->state);
    for (const struct finding *item = f->first; item; item = item->next) {
        sink->ops->begin_map(sink->state);
        write_member(sink, "state", item->state);
        write_member(sink, "subject", item->subject);
        write_member(sink, "text", item->text);
        sink->ops->end_map(sink->state);
    }
    sink->ops->end_list(sink->state);
    sink->ops->key(sink->state, STR("problems"));
    sink->ops->word(sink->state, count);
    sink->ops->end_map(sink->state);
}

/* Texts come from servers and hosts: control characters must not reach a terminal. */
static void write_lines(const struct findings *f, struct buf *out)
{
    for (const struct finding *item = f->first; item; item = item->next) {
        bool is_problem = strcmp(item->state, FINDING_PROBLEM) == 0;
        size_t start = out->len;
        buf_printf(out, "%-8s %-16s %s", is_problem ? "PROBLEM" : item->state, item->subject,
                   item->text);
        for (size_t i = start; i < out->len; i++) {
            out->ptr[i] = out->ptr[i] < 0x20 || out->ptr[i] == 0x7f ? '?' : out->ptr[i];
        }
        buf_add_u8(out, '\n');
    }
}

int findings_print(const struct findings *f, const char *format, struct error *err)
{
    struct buf out;
    buf_init(&out, OUTPUT_MAX_BYTES);
    if (!format || strcmp(format, "text") == 0) {
        write_lines(f, &out);
    } else if (strcmp(format, "json") == 0) {
        struct json_out json = json_out_to(&out);
        const struct sink sink = json_sink(&json);
        write_all(f, &sink);
        buf_add_u8(&out, '\n');
    } else {
        struct yaml_out yaml = yaml_out_to(&out);
        const struct sink sink = yaml_out_sink(&yaml);
        write_all(f, &sink);
    }
    int status = 0;
    if (out.failed || fwrite(out.ptr, 1, out.len, stdout) != out.len || fflush(stdout) != 0) {
        status = error_set(err, STATUS_UNAVAILABLE, "cannot write to standard output");
    }
    buf_free(&out);
    return status;
}
