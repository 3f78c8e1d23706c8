#include "gateway/cli/policy_online.h"

#include <string.h>

#include "gateway/policyfile/diagnostic_message.h"
#include "policy/base/utf8.h"

#define POLICY_SERVICE "/cordium.ext.v1.PolicyService/"

bool policy_is_online(const struct arguments *args)
{
    return args->is_online || args->is_in_force || args->server;
}

static const Ext__PolicyFile *find(const struct policy_texts *texts, const char *path)
{
    for (size_t i = 0; i < texts->count; i++) {
        if (strcmp(texts->items[i]->path, path) == 0) {
            return texts->items[i];
        }
    }
    return NULL;
}

int policy_texts_add(struct cli *cli, struct policy_texts *texts, const char *path, struct str text,
                     struct error *err)
{
    if (find(texts, path)) {
        return 0;
    }
    if (str_has_nul(text) || !utf8_is_valid(text)) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "'%s' is not UTF-8 text", path);
    }
    if (texts->count == texts->room) {
        size_t room = texts->room * 2 + 16;
        Ext__PolicyFile **items = cli_alloc(cli, room * sizeof *items);
        if (texts->count > 0) {
            memcpy(items, texts->items, texts->count * sizeof *items);
        }
        texts->items = items;
        texts->room = room;
    }
    Ext__PolicyFile *file = CLI_NEW(cli, Ext__PolicyFile, ext__policy_file);
    /* Protobuf-c's strings are not const; none of these is written to. */
    file->path = (char *)(uintptr_t)path;
    file->text = (char *)(uintptr_t)text.ptr;
    texts->items[texts->count++] = file;
    return 0;
}

int policy_online_check(struct cli *cli, const struct policy_texts *texts,
                        const struct arguments *args, struct diagnostics *found,
                        size_t *ret_policies, struct error *err)
{
    ProtobufCMessage *reply = NULL;
    Ext__CheckRequest *q = CLI_NEW(cli, Ext__CheckRequest, ext__check_request);
    q->files = texts->items;
    q->n_files = texts->count;
    q->strict = args->is_strict;
    q->notes = args->show_all || args->output;
    int rc = cli_call(cli, POLICY_SERVICE "Check", &q->base, &reply, err);
    if (rc) {
        return rc;
    }
    const Ext__CheckResponse *r = (const Ext__CheckResponse *)reply;
    size_t before[3];
    memcpy(before, found->by_severity, sizeof before);
    for (size_t i = 0; i < r->n_diagnostics; i++) {
        struct diagnostic d = diagnostic_of_message(r->diagnostics[i]);
        diagnostics_add(found, &d);
    }
    found->is_cut |= r->is_cut;
    found->by_severity[POLICY_SEVERITY_ERROR] = before[POLICY_SEVERITY_ERROR] + r->errors;
    found->by_severity[POLICY_SEVERITY_WARNING] = before[POLICY_SEVERITY_WARNING] + r->warnings;
    found->by_severity[POLICY_SEVERITY_NOTE] = before[POLICY_SEVERITY_NOTE] + r->notes;
    *ret_policies = r->policies;
    diagnostics_sort(found);
    return 0;
}

int policy_online_test(struct cli *cli, const struct policy_texts *policies, const char *path,
                       struct str text, Ext__TestResponse **ret, struct error *err)
{
    ProtobufCMessage *reply = NULL;
    struct policy_texts tests = {0};
    Ext__TestRequest *q = CLI_NEW(cli, Ext__TestRequest, ext__test_request);
    if (policy_texts_add(cli, &tests, path, text, err)) {
        return -err->status;
    }
    q->policies = policies->items;
    q->n_policies = policies->count;
    q->tests = tests.items;
    q->n_tests = tests.count;
    int rc = cli_call(cli, POLICY_SERVICE "Test", &q->base, &reply, err);
    *ret = rc ? NULL : (Ext__TestResponse *)reply;
    return rc;
}
