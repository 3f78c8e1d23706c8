#include "gateway/authorize/policy_history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/audit/wall_time.h"
#include "gateway/authorize/resource_yaml.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/resource_write.h"
#include "gateway/state/resource.h"
#include "gateway/text/json_reader.h"
#include "policy/base/json_out.h"

enum { KEY_SIZE = 48, TEXT_MAX_BYTES = 256 << 20, ARENA_MAX_BYTES = 512 << 20, COUNT_DEFAULT = 20 };

static void format_key(uint64_t version, char ret[KEY_SIZE])
{
    (void)snprintf(ret, KEY_SIZE, "policy_version/%" PRIu64, version);
}

static int add_kind(struct store *store, enum store_kind kind, struct arena *arena, struct buf *out,
                    uint32_t *count, struct error *err)
{
    struct store_list list;
    struct store_filter filter = {.hidden = STORE_HIDDEN_AND_VISIBLE};
    int rc = store_list_all(store, kind, &filter, arena, &list, err);
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        bool is_system = kind == STORE_POLICY && resource_metadata(list.items[i])->is_system;
        *count += 1;
        if (!is_system) {
            buf_add_cstr(out, "---\n");
            rc = resource_write_yaml(list.items[i], arena, out, err);
        }
    }
    return rc;
}

static void add_head(const struct policy_history_entry *entry, uint32_t policies, struct buf *out)
{
    char time[WALL_TIME_TEXT_SIZE];
    struct json_out j = json_out_to(out);
    wall_time_format_ns(entry->created_ns, time);
    json_begin_object(&j);
    json_member_string_opt(&j, "createdAt", entry->created_ns ? time : "");
    json_member_string(&j, "user", entry->user);
    json_member_string(&j, "reason", entry->reason);
    json_member_int(&j, "policies", policies);
    json_end_object(&j);
    buf_add_u8(out, '\n');
}

int policy_history_record(struct store *store, const struct policy_history_entry *entry,
                          struct error *err)
{
    struct arena arena;
    struct buf documents;
    struct buf text;
    char key[KEY_SIZE];
    uint32_t policies = 0;
    uint32_t configs = 0;
    arena_init(&arena, ARENA_MAX_BYTES);
    buf_init(&documents, TEXT_MAX_BYTES);
    buf_init(&text, TEXT_MAX_BYTES);
    int rc = add_kind(store, STORE_POLICY, &arena, &documents, &policies, err);
    rc = rc ? rc : add_kind(store, STORE_CLUSTER_CONFIG, &arena, &documents, &configs, err);
    add_head(entry, policies, &text);
    buf_add_str(&text, buf_str(&documents));
    buf_add_u8(&text, 0);
    if (rc == 0 && (text.failed || documents.failed)) {
        rc = error_set(err, STATUS_RESOURCE_EXHAUSTED, "The policies are too large for a version");
    }
    format_key(entry->version, key);
    rc = rc ? rc : store_setting_put(store, key, (const char *)text.ptr, err);
    if (rc == 0 && entry->version > POLICY_VERSIONS_KEPT) {
        format_key(entry->version - POLICY_VERSIONS_KEPT, key);
        rc = store_setting_put(store, key, NULL, err);
    }
    buf_free(&text);
    buf_free(&documents);
    arena_free(&arena);
    return rc;
}

static int get(struct store *store, uint64_t version, struct arena *arena, const char **ret,
               struct error *err)
{
    char key[KEY_SIZE];
    format_key(version, key);
    return store_setting_get(store, key, arena, ret, err);
}

bool policy_history_has(struct store *store, uint64_t version)
{
    struct arena arena;
    struct error ignored = {0};
    const char *text;
    arena_init(&arena, TEXT_MAX_BYTES);
    int rc = get(store, version, &arena, &text, &ignored);
    arena_free(&arena);
    return rc == 0;
}

static char *member(const struct tree_node *head, const char *key, struct arena *arena)
{
    static char nothing[1];
    const struct tree_node *n = tree_member(head, key);
    char *copy = n ? arena_strndup(arena, n->text.ptr, n->text.len) : NULL;
    return copy ? copy : nothing;
}

/* The first line of a version's text. */
static int read_version(struct store *store, uint64_t version, struct arena *arena,
                        Ext__PolicyVersion *ret, struct error *err)
{
    struct arena scratch;
    const char *text = "";
    const struct tree_node *head = NULL;
    arena_init(&scratch, ARENA_MAX_BYTES);
    int rc = get(store, version, &scratch, &text, err);
    rc = rc ? rc : json_read(str_make(text, strcspn(text, "\n")), &scratch, &head, err);
    if (rc == 0) {
        ret->version = version;
        ret->created_at = member(head, "createdAt", arena);
        ret->user = member(head, "user", arena);
        ret->reason = member(head, "reason", arena);
        ret->policies = (uint32_t)strtoul(member(head, "policies", arena), NULL, 10);
    }
    arena_free(&scratch);
    return rc;
}

int policy_history_list(struct store *store, uint64_t current, uint32_t count, struct arena *arena,
                        Ext__VersionList **ret, struct error *err)
{
    count = count == 0 ? COUNT_DEFAULT : count;
    count = count < POLICY_VERSIONS_KEPT ? count : POLICY_VERSIONS_KEPT;
    Ext__VersionList *list = CODEC_NEW(arena, Ext__VersionList, ext__version_list);
    if (list) {
        list->items = arena_calloc(arena, count, sizeof *list->items);
    }
    if (!list || !list->items) {
        return resource_no_memory(err);
    }
    for (uint64_t v = current; v > 0 && v + POLICY_VERSIONS_KEPT > current; v--) {
        Ext__PolicyVersion *item = CODEC_NEW(arena, Ext__PolicyVersion, ext__policy_version);
        if (!item) {
            return resource_no_memory(err);
        }
        int rc = list->n_items < count ? read_version(store, v, arena, item, err) : 0;
        if (rc && rc != -STATUS_NOT_FOUND) {
            return rc;
        }
        if (rc == 0 && list->n_items < count) {
            item->is_current = v == current;
            list->items[list->n_items++] = item;
        }
    }
    *err = (struct error){0};
    *ret = list;
    return 0;
}

int policy_history_text(struct store *store, uint64_t version, struct arena *arena, struct str *ret,
                        struct error *err)
{
    const char *text = NULL;
    int rc = get(store, version, arena, &text, err);
    if (rc == -STATUS_NOT_FOUND) {
        return error_set(err, STATUS_NOT_FOUND,
                         "Version %" PRIu64 " of the policies is not kept; `policy versions` lists "
                         "those that are",
                         version);
    }
    if (rc) {
        return rc;
    }
    const char *documents = text + strcspn(text, "\n");
    *ret = str_from(*documents ? documents + 1 : documents);
    return 0;
}
