#include "gateway/authorize/apply.h"

#include <stdio.h>
#include <stdlib.h>

#include "gateway/authorize/apply_check.h"
#include "gateway/authorize/apply_kind.h"
#include "gateway/authorize/past_request.h"
#include "gateway/authorize/policy_store.h"
#include "gateway/authorize/policy_uses.h"
#include "gateway/authorize/resource_yaml.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/resource.h"
#include "gateway/text/tree.h"
#include "gateway/text/yaml_reader.h"

enum { DIFF_MAX_BYTES = 4 << 20 };

#define CLUSTER_CONFIG_NAME "default"

/* One document. */
struct item {
    const struct apply_kind *kind;
    ProtobufCMessage *message;  /* as written; later as stored */
    ProtobufCMessage *existing; /* NULL: it is new */
    const char *name;
    uint32_t line;
    Ext__ApplyResponse__Action action;
};

struct apply {
    struct gateway *g;
    const struct apply_options *options;
    struct arena *arena;
    struct item *items;
    size_t count;
    size_t room;
    ProtobufCMessage **pruned;
    size_t pruned_count;
    struct buf diff;
    struct policy_snapshot *next;
    struct replay *replay;       /* NULL unless old requests are decided again */
    struct policy_files written; /* the text as the checker sees it */
};

/* Several broken documents in one error. */
struct failures {
    struct error *err;
    unsigned count;
};

static void add_failure(struct failures *f, const struct error *err)
{
    if (f->count++ == 0) {
        *f->err = *err;
        return;
    }
    struct error first = *f->err;
    (void)error_set_at(f->err, first.status, first.line, first.column, "%s\n%s", first.text,
                       err->text);
}

static int add_item(struct apply *a, const struct item *item)
{
    struct item *items = arena_grow(a->arena, a->items, a->count, &a->room, sizeof *items, 16);
    if (!items) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    a->items = items;
    a->items[a->count++] = *item;
    return 0;
}

static int text_member(const struct tree_node *doc, const char *key, struct str *ret,
                       struct error *err)
{
    const struct tree_node *n = tree_member(doc, key);
    *ret = STR_NONE;
    if (!n || n->type == TREE_NULL) {
        return 0;
    }
    if (n->type != TREE_STRING) {
        return error_set_at(err, STATUS_INVALID_ARGUMENT, n->line, n->column,
                            "%s: must be text, not %s", key, tree_type_name(n->type));
    }
    *ret = n->text;
    return 0;
}

/* The ClusterConfig has one name, whether it is written or not. */
static int name_cluster_config(struct apply *a, struct item *item, struct error *err)
{
    Core__ClusterConfig *c = (Core__ClusterConfig *)item->message;
    if (!c->metadata) {
        c->metadata = CODEC_NEW(a->arena, Meta__Metadata, meta__metadata);
    }
    char *name = arena_strdup(a->arena, CLUSTER_CONFIG_NAME);
    if (!c->metadata || !name) {
        return resource_no_memory(err);
    }
    c->metadata->name = name;
    return 0;
}

static int check_item(struct apply *a, struct item *item, struct error *err)
{
    int rc = 0;
    if (item->kind->store_kind == STORE_CLUSTER_CONFIG) {
        rc = name_cluster_config(a, item, err);
    } else if (!resource_name(item->message)[0]) {
        rc =
            error_set(err, STATUS_INVALID_ARGUMENT, "%s: metadata.name is unset", item->kind->kind);
    }
    rc = rc ? rc : metadata_validate(resource_metadata(item->message), item->kind->kind, err);
    rc = rc ? rc : item->kind->check(a->g, item->message, err);
    item->name = resource_name(item->message);
    for (size_t i = 0; rc == 0 && i < a->count; i++) {
        if (a->items[i].kind == item->kind && strcmp(a->items[i].name, item->name) == 0) {
            rc = error_set(err, STATUS_INVALID_ARGUMENT, "%s '%s' is also on line %u",
                           item->kind->kind, item->name, a->items[i].line);
        }
    }
    return rc;
}

static int read_item(struct apply *a, const struct tree_node *doc, struct item *ret,
                     struct error *err)
{
    struct str api_version;
    struct str kind;
    *ret = (struct item){.line = doc->line};
    if (doc->type != TREE_MAP) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "a document must be a map, not %s",
                         tree_type_name(doc->type));
    }
    int rc = text_member(doc, "apiVersion", &api_version, err);
    rc = rc ? rc : text_member(doc, "kind", &kind, err);
    if (rc) {
        return rc;
    }
    ret->kind = apply_kind_find(api_version, kind, err);
    if (!ret->kind) {
        return -err->status;
    }
    rc = codec_decode_tree(store_kind_info(ret->kind->store_kind)->descriptor, doc, CODEC_STRICT,
                           a->arena, &ret->message, err);
    return rc ? rc : check_item(a, ret, err);
}

/* An error in a document gets the place in the text, its own when it has one. An expression's own
 * line stays in its text. */
static void place_error(struct error *err, const struct tree_node *doc, bool is_reader_place)
{
    uint32_t line = is_reader_place && err->line ? err->line : doc->line;
    uint32_t column = is_reader_place && err->line ? err->column : doc->column;
    (void)error_wrap(err, "line %u", line);
    err->line = line;
    err->column = column;
}

static int read_documents(struct apply *a, struct str text, struct error *err)
{
    struct yaml_stream *stream = NULL;
    struct failures failures = {.err = err};
    int rc = yaml_stream_open(text, &stream, err);
    while (rc == 0) {
        const struct tree_node *doc;
        struct error one = {0};
        rc = yaml_stream_next(stream, a->arena, &doc, &one);
        if (rc) {
            if (one.line) { /* else it is about the text as a whole */
                (void)error_wrap(&one, "line %u", one.line);
            }
            add_failure(&failures, &one);
            break;
        }
        if (!doc) {
            break;
        }
        struct item item;
        if (a->count >= APPLY_DOCUMENTS_MAX) {
            rc = error_set(&one, STATUS_INVALID_ARGUMENT, "more than %d documents",
                           APPLY_DOCUMENTS_MAX);
            add_failure(&failures, &one);
        } else if (read_item(a, doc, &item, &one)) {
            if (!apply_check_errors(&a->written, doc->line, a->arena, &one)) {
                place_error(&one, doc, !item.message);
            }
            add_failure(&failures, &one);
        } else if (apply_check_errors(&a->written, doc->line, a->arena, &one)) {
            add_failure(&failures, &one);
        } else if (add_item(a, &item)) {
            rc = resource_no_memory(&one);
            add_failure(&failures, &one);
        }
    }
    yaml_stream_close(stream);
    return failures.count ? -err->status : rc;
}

static unsigned dots_in(const char *name)
{
    unsigned n = 0;
    for (; *name; name++) {
        n += *name == '.';
    }
    return n;
}

/* Kind by kind; parents (fewer dots) before children; else as in the file. */
static int compare_items(const void *x, const void *y)
{
    const struct item *a = x;
    const struct item *b = y;
    if (a->kind->order != b->kind->order) {
        return a->kind->order < b->kind->order ? -1 : 1;
    }
    unsigned dots_a = dots_in(a->name);
    unsigned dots_b = dots_in(b->name);
    if (dots_a != dots_b) {
        return dots_a < dots_b ? -1 : 1;
    }
    return a->line < b->line ? -1 : a->line > b->line;
}

static int add_diff(struct apply *a, const ProtobufCMessage *before, const ProtobufCMessage *after,
                    struct error *err)
{
    int rc = resource_diff(before, after, a->arena, &a->diff, err);
    return rc == 0 && a->diff.failed
               ? error_set(err, STATUS_RESOURCE_EXHAUSTED,
                           "The diff is larger than %d MiB; apply fewer documents at once",
                           DIFF_MAX_BYTES >> 20)
               : rc;
}

static int insert_item(struct apply *a, struct item *item, struct error *err)
{
    struct store_index index;
    if (protobuf_c_message_descriptor_get_field_by_name(item->message->descriptor, "status")) {
        message_set_pointer(item->message, "status", NULL);
    }
    int rc = resource_stamp_new(item->message, item->kind->store_kind, item->name,
                                a->options->wall_ns, a->arena, err);
    rc = rc ? rc : item->kind->complete(a->g, item->message, NULL, a->arena, &index, err);
    rc = rc ? rc : store_insert(a->g->store, item->kind->store_kind, item->message, &index, err);
    item->action = EXT__APPLY_RESPONSE__ACTION__CREATED;
    return rc ? rc : add_diff(a, NULL, item->message, err);
}

/* The stored resource with metadata and spec of the file. */
static int merge_item(struct apply *a, const struct item *item, ProtobufCMessage **ret,
                      struct error *err)
{
    ProtobufCMessage *next = codec_copy(item->existing, a->arena);
    ProtobufCMessage *asked = codec_copy(item->message, a->arena);
    if (!next || !asked) {
        return resource_no_memory(err);
    }
    resource_metadata_take(resource_metadata(next), resource_metadata(asked));
    message_set_pointer(next, "spec", resource_spec(asked));
    *ret = next;
    return 0;
}

static int update_item(struct apply *a, struct item *item, struct error *err)
{
    struct store_index index;
    ProtobufCMessage *next = NULL;
    const Meta__Metadata *m = resource_metadata(item->existing);
    int rc = merge_item(a, item, &next, err);
    rc = rc ? rc : item->kind->complete(a->g, next, item->existing, a->arena, &index, err);
    if (rc) {
        return rc;
    }
    item->message = next;
    if (codec_equal(item->existing, next)) {
        item->action = EXT__APPLY_RESPONSE__ACTION__UNCHANGED;
        return 0;
    }
    item->action = EXT__APPLY_RESPONSE__ACTION__UPDATED;
    if (m->is_system && item->kind->store_kind != STORE_CLUSTER_CONFIG) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "%s '%s' belongs to the system and cannot be changed; write another one "
                         "under a name of your own",
                         item->kind->kind, item->name);
    }
    rc = resource_stamp_update(next, a->options->wall_ns, a->arena, err);
    rc = rc ? rc
            : store_update(a->g->store, item->kind->store_kind, next, &index, m->resource_version,
                           err);
    return rc ? rc : add_diff(a, item->existing, next, err);
}

/* There is one ClusterConfig, whatever it was named when it was made. */
static int find_existing(struct apply *a, struct item *item, struct error *err)
{
    item->existing = NULL;
    if (item->kind->store_kind == STORE_CLUSTER_CONFIG) {
        struct store_list list;
        struct store_filter filter = {.hidden = STORE_HIDDEN_AND_VISIBLE};
        int rc = store_list_all(a->g->store, STORE_CLUSTER_CONFIG, &filter, a->arena, &list, err);
        item->existing = rc == 0 && list.count > 0 ? list.items[0] : NULL;
        return rc;
    }
    int rc = store_get_by_name(a->g->store, item->kind->store_kind, item->name, a->arena,
                               &item->existing, err);
    return rc == -STATUS_NOT_FOUND ? 0 : rc;
}

static int compare_names(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* The names of the policies in the text, in order. */
static const char **names_in_text(const struct apply *a, size_t *ret_count)
{
    size_t count = 0;
    const char **names = arena_calloc(a->arena, a->count, sizeof *names);
    for (size_t i = 0; names && i < a->count; i++) {
        if (a->items[i].kind->store_kind == STORE_POLICY) {
            names[count++] = a->items[i].name;
        }
    }
    if (count > 0) {
        qsort(names, count, sizeof *names, compare_names);
    }
    *ret_count = count;
    return names;
}

static int prune_one(struct apply *a, struct policy_uses *uses, ProtobufCMessage *policy,
                     struct error *err)
{
    const char *name = resource_name(policy);
    struct error used = {0};
    int rc = a->options->prune_attached ? 0 : policy_uses_check_none(uses, name, &used);
    if (rc) {
        *err = a->options->prune_all ? used : *err;
        return a->options->prune_all ? rc : 0;
    }
    rc = store_delete(a->g->store, STORE_POLICY, resource_uid(policy), err);
    if (rc == 0) {
        policy_uses_forget(uses, name);
        a->pruned[a->pruned_count++] = policy;
        rc = add_diff(a, policy, NULL, err);
    }
    return rc;
}

/* Newest first: a child is younger than its parent, so a whole family can go. */
static int prune(struct apply *a, struct error *err)
{
    struct store_list list;
    struct policy_uses uses;
    size_t name_count;
    struct store_filter filter = {.hidden = STORE_HIDDEN_AND_VISIBLE};
    int rc = store_list_all(a->g->store, STORE_POLICY, &filter, a->arena, &list, err);
    rc = rc ? rc : policy_uses_read(&uses, a->g->store, a->arena, err);
    if (rc) {
        return rc;
    }
    const char **names = names_in_text(a, &name_count);
    a->pruned = arena_calloc(a->arena, list.count, sizeof(ProtobufCMessage *));
    if (!a->pruned || !names) {
        return resource_no_memory(err);
    }
    for (size_t i = list.count; rc == 0 && i-- > 0;) {
        const char *name = resource_name(list.items[i]);
        bool stays = resource_metadata(list.items[i])->is_system ||
                     bsearch(&name, names, name_count, sizeof *names, compare_names);
        rc = stays ? 0 : prune_one(a, &uses, list.items[i], err);
    }
    return rc;
}

/* The policies come first, and what follows may attach them. */
static int store_items(struct apply *a, struct error *err)
{
    bool is_staged = false;
    for (size_t i = 0; i < a->count; i++) {
        struct item *item = &a->items[i];
        int rc = 0;
        if (!is_staged && item->kind->store_kind != STORE_POLICY) {
            is_staged = true;
            rc = policy_store_stage(a->g->policies, err);
            if (rc) {
                return rc;
            }
        }
        rc = find_existing(a, item, err);
        rc = rc ? rc : item->existing ? update_item(a, item, err) : insert_item(a, item, err);
        if (rc) {
            return error_wrap(err, "line %u", item->line);
        }
    }
    return 0;
}

static int check_attachments(struct apply *a, struct error *err)
{
    for (size_t i = 0; i < a->count; i++) {
        const struct item *item = &a->items[i];
        if (item->kind->store_kind == STORE_POLICY) {
            continue;
        }
        if (policy_snapshot_check_attachments(a->g->policies, a->next, item->message, err)) {
            return error_wrap(err, "line %u: %s '%s'", item->line, item->kind->kind, item->name);
        }
    }
    return 0;
}

static int fill_item(struct apply *a, const struct item *item, Ext__ApplyResponse__Item *ret)
{
    ret->kind = arena_strdup(a->arena, item->kind->kind);
    ret->name = arena_strdup(a->arena, item->name);
    ret->action = item->action;
    ret->line = item->line;
    if (item->line) {
        ret->n_warnings = apply_check_warnings(&a->written, item->line, a->arena, &ret->warnings);
    }
    return ret->kind && ret->name ? 0 : -STATUS_RESOURCE_EXHAUSTED;
}

static int fill_items(struct apply *a, Ext__ApplyResponse *response)
{
    size_t count = a->count + a->pruned_count;
    response->items = arena_calloc(a->arena, count, sizeof *response->items);
    response->diff = arena_strndup(a->arena, (const char *)a->diff.ptr, a->diff.len);
    if (!response->items || !response->diff) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    for (size_t i = 0; i < count; i++) {
        struct item gone = {.action = EXT__APPLY_RESPONSE__ACTION__DELETED};
        Ext__ApplyResponse__Item *shown =
            CODEC_NEW(a->arena, Ext__ApplyResponse__Item, ext__apply_response__item);
        if (i >= a->count) {
            struct error ignored;
            gone.kind = apply_kind_find(STR(""), STR("Policy"), &ignored);
            gone.message = a->pruned[i - a->count];
            gone.name = resource_name(gone.message);
        }
        const struct item *item = i < a->count ? &a->items[i] : &gone;
        if (!shown || fill_item(a, item, shown)) {
            return -STATUS_RESOURCE_EXHAUSTED;
        }
        response->items[response->n_items++] = shown;
        response->created += item->action == EXT__APPLY_RESPONSE__ACTION__CREATED;
        response->updated += item->action == EXT__APPLY_RESPONSE__ACTION__UPDATED;
        response->unchanged += item->action == EXT__APPLY_RESPONSE__ACTION__UNCHANGED;
        response->deleted += item->action == EXT__APPLY_RESPONSE__ACTION__DELETED;
    }
    return 0;
}

/* Inside the transaction; everything that can fail does so here. */
static int apply_all(struct apply *a, Ext__ApplyResponse **ret, struct error *err)
{
    int rc = store_items(a, err);
    const struct apply_options *o = a->options;
    rc = rc || !(o->prune || o->prune_all) ? rc : prune(a, err);
    rc = rc ? rc : policy_store_prepare(a->g->policies, &a->next, err);
    rc = rc ? rc : check_attachments(a, err);
    rc = rc || !o->approve ? rc : o->approve(o->approve_arg, a->next, err);
    if (rc) {
        return rc;
    }
    Ext__ApplyResponse *response = CODEC_NEW(a->arena, Ext__ApplyResponse, ext__apply_response);
    if (!response || fill_items(a, response)) {
        return resource_no_memory(err);
    }
    *ret = response;
    return a->replay ? replay_finish(a->replay, a->next, &response->replay, err) : 0;
}

static bool has_changes(const Ext__ApplyResponse *r)
{
    return r->created || r->updated || r->deleted;
}

int apply_documents(struct gateway *g, struct str text, const struct apply_options *options,
                    struct arena *arena, Ext__ApplyResponse **ret, struct error *err)
{
    struct apply a = {.g = g, .options = options, .arena = arena};
    buf_init(&a.diff, DIFF_MAX_BYTES);
    int rc = apply_check(text, arena, &a.written, err);
    rc = rc ? rc : read_documents(&a, text, err);
    if (rc == 0 && a.count == 0) {
        rc = error_set(err, STATUS_INVALID_ARGUMENT, "The file has no documents");
    }
    if (rc) {
        buf_free(&a.diff);
        return rc;
    }
    qsort(a.items, a.count, sizeof *a.items, compare_items);
    if (options->dry_run && options->audit_lines > 0) {
        rc = replay_begin(g, options->audit_lines, arena, &a.replay, err);
    }
    rc = rc ? rc : store_begin(g->store, err);
    if (rc == 0) {
        rc = apply_all(&a, ret, err);
        bool keeps = rc == 0 && !options->dry_run && has_changes(*ret);
        rc = keeps ? store_commit(g->store, err) : rc;
        if (!keeps || rc) {
            store_rollback(g->store);
            policy_snapshot_free(a.next);
        } else {
            policy_store_install(g->policies, a.next);
        }
        policy_store_unstage(g->policies);
    }
    buf_free(&a.diff);
    return rc;
}
