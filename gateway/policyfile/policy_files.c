#include "gateway/policyfile/policy_files.h"

#include "api/core.pb-c.h"
#include "gateway/authorize/policy_source_of.h"
#include "gateway/authorize/system_policies.h"
#include "gateway/policyfile/yaml_trap.h"
#include "gateway/rpc/codec.h"
#include "gateway/text/yaml_reader.h"

enum { LENGTH_MAX = 200 };

int policy_files_open(struct policy_files *files, struct arena *arena, struct error *err)
{
    *files = (struct policy_files){.arena = arena};
    diagnostics_init(&files->diagnostics, arena);
    files->env = policy_env_new(POLICY_LIBRARIES_ALL, err);
    return files->env ? 0 : -err->status;
}

void policy_files_close(struct policy_files *files)
{
    policy_env_free(files->env);
    files->env = NULL;
}

/* Characters from one place to another on the same line. */
static uint32_t length_between(struct str text, struct text_place from, struct text_place to)
{
    uint32_t length = 0;
    for (size_t i = from.offset; i < to.offset && i < text.len && length < LENGTH_MAX; i++) {
        if (text.ptr[i] == '\n') {
            break;
        }
        length += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
    }
    return length ? length : 1;
}

void policy_files_tell(struct policy_files *files, const struct policy_document *document,
                       const struct tree_node *node, size_t begin, size_t end,
                       const struct diagnostic *what)
{
    struct diagnostic d = *what;
    d.file = document->file;
    if (diagnostics_is_full(&files->diagnostics)) {
        diagnostics_add(&files->diagnostics, &d); /* its place is not looked for */
        return;
    }
    const struct text_lines *text = document->lines;
    bool is_scalar = node->type != TREE_MAP && node->type != TREE_LIST;
    struct text_place from = is_scalar && end > begin
                                 ? yaml_place_of(text, node, begin)
                                 : text_place_at(text, node->line, node->column);
    struct text_place to = is_scalar && end > begin ? yaml_place_of(text, node, end) : from;
    d.document_line = document->tree->line;
    d.line = from.line;
    d.column = from.column;
    d.length = length_between(text->text, from, to);
    d.source = text_line_at(text->text, from.offset);
    diagnostics_add(&files->diagnostics, &d);
}

/* An error of the reader or the codec, which have found the place themselves. */
static void tell_error(struct policy_files *files, const char *file, const struct text_lines *text,
                       const struct error *err, const char *code, const char *what,
                       const char *remedy)
{
    struct diagnostic d = {.file = file,
                           .line = err->line,
                           .column = err->column,
                           .severity = POLICY_SEVERITY_ERROR,
                           .code = code,
                           .text = what,
                           .remedy = remedy};
    if (err->line) {
        d.source = text_line_at(text->text, text_place_at(text, err->line, err->column).offset);
    }
    diagnostics_add(&files->diagnostics, &d);
}

void policy_files_add_unreadable(struct policy_files *files, const char *path, const char *why)
{
    struct error none = {0};
    tell_error(files, path, NULL, &none, "file-unreadable", why, "");
}

static bool add_document(struct policy_files *files, struct policy_document *document)
{
    void *items = arena_grow(files->arena, files->documents, files->document_count,
                             &files->document_room, sizeof *files->documents, 16);
    if (!items) {
        return false;
    }
    files->documents = items;
    files->documents[files->document_count++] = document;
    return true;
}

static bool add_policy(struct policy_files *files, const struct written_policy *policy,
                       const struct policy_source *source)
{
    if (files->policy_count == files->policy_room) {
        size_t room = files->policy_room;
        void *policies = arena_grow(files->arena, files->policies, files->policy_count, &room,
                                    sizeof *files->policies, 16);
        void *sources = arena_grow(files->arena, files->sources, files->policy_count,
                                   &files->policy_room, sizeof *files->sources, 16);
        if (!policies || !sources || files->policy_count >= POLICY_FILES_POLICIES_MAX) {
            return false;
        }
        files->policies = policies;
        files->sources = sources;
    }
    files->policies[files->policy_count] = *policy;
    files->sources[files->policy_count++] = *source;
    return true;
}

/* Attributes have no schema that says what `no` or 010 is. */
static void tell_scalars(struct policy_files *files, const struct policy_document *document,
                         const struct tree_node *node)
{
    struct yaml_trap trap = yaml_trap_scalar(node);
    if (trap.code) {
        struct diagnostic d = {.severity = POLICY_SEVERITY_WARNING,
                               .code = trap.code,
                               .text = trap.text,
                               .remedy = trap.remedy};
        policy_files_tell(files, document, node, 0, node->text.len, &d);
    }
    for (const struct tree_node *n = node->first; n; n = n->next) {
        tell_scalars(files, document, n);
    }
}

static void convert_policy(struct policy_files *files, const struct policy_document *document,
                           const struct written_policy *written, const Meta__Metadata *metadata,
                           const Core__Policy__Spec *spec)
{
    struct policy_source source;
    struct error err = {0};
    const struct tree_node *attrs = tree_member(written->spec, "attrs");
    if (attrs) {
        tell_scalars(files, document, attrs);
    }
    int rc =
        policy_source_of(written->name, metadata, spec, files->arena, files->arena, &source, &err);
    if (rc == 0 && !add_policy(files, written, &source)) {
        rc = error_set(&err, STATUS_RESOURCE_EXHAUSTED, "too many policies, or no memory");
    }
    if (rc) {
        struct diagnostic d = {
            .severity = POLICY_SEVERITY_ERROR, .code = "policy-invalid", .text = err.text};
        policy_files_tell(files, document, written->spec ? written->spec : document->tree, 0, 0,
                          &d);
    }
}

/* Inline policies, in the order of the tree, which the codec keeps. */
static void convert_inline(struct policy_files *files, const struct policy_document *document)
{
    struct authorization a = authorization_of(document->message);
    const struct tree_node *authorization =
        tree_member(tree_member(document->tree, "spec"), "authorization");
    const struct tree_node *list = tree_member(authorization, "inlinePolicies");
    const struct tree_node *node = list ? list->first : NULL;
    for (size_t i = 0; i < a.inline_policy_count && node; i++, node = node->next) {
        struct written_policy written = {.document = document,
                                         .spec = tree_member(node, "spec"),
                                         .name = a.inline_policies[i]->name,
                                         .is_inline = true};
        convert_policy(files, document, &written, NULL, a.inline_policies[i]->spec);
    }
}

static struct str text_of(const struct tree_node *node)
{
    return node && node->type == TREE_STRING ? node->text : STR_NONE;
}

static bool kind_is_applied(enum store_kind kind)
{
    return kind == STORE_POLICY || kind == STORE_GROUP || kind == STORE_USER ||
           kind == STORE_CREDENTIAL || kind == STORE_CLUSTER_CONFIG;
}

/* 0 for a document that is for somebody else, or is broken: then that has been told. */
static enum store_kind kind_of(struct policy_files *files, const struct policy_document *document)
{
    const struct tree_node *node = tree_member(document->tree, "kind");
    struct str kind = text_of(node);
    struct str version = text_of(tree_member(document->tree, "apiVersion"));
    bool is_core = version.len == 0 || str_is(version, "core/v1");
    enum store_kind found = store_kind_from(is_core ? STR("core/v1") : version, kind);
    if (found && kind_is_applied(found)) {
        return found;
    }
    const struct tree_node *spec = tree_member(document->tree, "spec");
    const struct tree_node *authorization = tree_member(spec, "authorization");
    bool is_policy = tree_member(spec, "rules") || tree_member(authorization, "policies") ||
                     tree_member(authorization, "inlinePolicies");
    /* Files for other commands: `create -f` takes a spec without a kind. */
    bool is_foreign = version.len > 0 && !is_core && !str_starts_with(version, STR("core/"));
    bool is_other = is_foreign || str_is(kind, "PolicyTest") ||
                    store_kind_from(STR("cordium/v1"), kind) || (!node && !is_policy);
    if (!is_other) {
        struct diagnostic d = {
            .severity = POLICY_SEVERITY_ERROR,
            .code = "kind-unknown",
            .text = !is_core        ? "apply takes no such version"
                    : kind.len == 0 ? "the document has no kind"
                                    : "apply takes no such kind",
            .remedy = !is_core ? "write apiVersion: core/v1"
                               : "write kind: Policy, Group, User, Credential or ClusterConfig"};
        const struct tree_node *place = is_core ? node : tree_member(document->tree, "apiVersion");
        policy_files_tell(files, document, place ? place : document->tree, 0, 0, &d);
    }
    return 0;
}

static const char *name_of(const ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, "metadata");
    const Meta__Metadata *metadata =
        f ? *(Meta__Metadata *const *)(const void *)((const char *)message + f->offset) : NULL;
    return metadata ? metadata->name : "";
}

/* The scalar at a place, which the codec's error names; NULL: there is none. */
static const struct tree_node *scalar_at(const struct tree_node *node, uint32_t line,
                                         uint32_t column)
{
    if (node->line == line && node->column == column && !node->first) {
        return node;
    }
    for (const struct tree_node *n = node->first; n; n = n->next) {
        const struct tree_node *found = scalar_at(n, line, column);
        if (found) {
            return found;
        }
    }
    return NULL;
}

static void tell_invalid(struct policy_files *files, const struct policy_document *document,
                         const struct error *err)
{
    const struct tree_node *scalar = scalar_at(document->tree, err->line, err->column);
    struct yaml_trap trap = scalar ? yaml_trap_scalar(scalar) : (struct yaml_trap){0};
    tell_error(files, document->file, document->lines, err, "document-invalid", err->text,
               trap.code ? trap.remedy : "");
}

static void read_document(struct policy_files *files, struct policy_document *document)
{
    struct error err = {0};
    if (document->tree->type != TREE_MAP) {
        struct diagnostic d = {.severity = POLICY_SEVERITY_ERROR,
                               .code = "kind-unknown",
                               .text = "a document must be an object with a kind",
                               .remedy = "write kind: Policy, metadata: and spec:"};
        policy_files_tell(files, document, document->tree, 0, 0, &d);
        return;
    }
    document->kind = kind_of(files, document);
    if (!document->kind) {
        return;
    }
    if (codec_decode_tree(store_kind_info(document->kind)->descriptor, document->tree, CODEC_STRICT,
                          files->arena, &document->message, &err)) {
        tell_invalid(files, document, &err);
        return;
    }
    document->name = name_of(document->message);
    if (!add_document(files, document)) {
        return;
    }
    if (document->kind == STORE_POLICY) {
        const Core__Policy *policy = (const Core__Policy *)document->message;
        struct written_policy written = {.document = document,
                                         .spec = tree_member(document->tree, "spec"),
                                         .name = document->name};
        convert_policy(files, document, &written, policy->metadata, policy->spec);
    } else {
        convert_inline(files, document);
    }
}

void policy_files_add(struct policy_files *files, const char *path, struct str text)
{
    struct yaml_stream *stream = NULL;
    struct error err = {0};
    struct text_lines *lines = arena_zalloc(files->arena, sizeof *lines);
    if (!lines || !text_lines_find(lines, text, files->arena)) {
        policy_files_add_unreadable(files, path, "out of memory");
        return;
    }
    int rc = yaml_stream_open(text, &stream, &err);
    while (rc == 0) {
        struct policy_document *document = arena_zalloc(files->arena, sizeof *document);
        if (!document) {
            rc = error_set(&err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
            break;
        }
        *document = (struct policy_document){.file = path, .lines = lines, .name = ""};
        rc = yaml_stream_next(stream, files->arena, &document->tree, &err);
        if (rc || !document->tree) {
            break;
        }
        read_document(files, document);
    }
    if (rc) {
        struct yaml_trap trap = yaml_trap_of(lines, &err);
        err.line = trap.line ? trap.line : err.line;
        err.column = trap.line ? trap.column : err.column;
        tell_error(files, path, lines, &err, trap.code, trap.text ? trap.text : err.text,
                   trap.remedy);
    }
    yaml_stream_close(stream);
}

static int add_system(struct policy_files *files, struct policy_set_builder *b, struct error *err)
{
    const struct system_policy *policy;
    int rc = 0;
    for (size_t i = 0; rc == 0 && (policy = system_policy_at(i)); i++) {
        ProtobufCMessage *message;
        struct policy_source source;
        rc = codec_decode_json(&core__policy__descriptor, str_from(policy->json), CODEC_STRICT,
                               files->arena, &message, err);
        rc = rc ? rc
                : policy_source_of(policy->name, NULL, ((Core__Policy *)message)->spec,
                                   files->arena, policy_set_builder_arena(b), &source, err);
        rc = rc ? rc : policy_set_add(b, &source, err);
    }
    return rc;
}

int policy_files_build(struct policy_files *files, struct policy_set **ret, struct error *err)
{
    struct policy_set_builder *b = policy_set_builder_new(files->env, POLICY_SET_NAMED, 0);
    if (!b) {
        return error_set(err, STATUS_RESOURCE_EXHAUSTED, "out of memory");
    }
    int rc = add_system(files, b, err);
    for (size_t i = 0; rc == 0 && i < files->policy_count; i++) {
        rc = files->policies[i].is_inline ? 0 : policy_set_add(b, &files->sources[i], err);
    }
    if (rc) {
        policy_set_builder_free(b);
        return rc;
    }
    return policy_set_finish(b, ret, err);
}
