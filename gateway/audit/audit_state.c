#include "gateway/audit/audit_state.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "executor/proc/log.h"
#include "gateway/audit/audit_log.h"

enum { VALUE_ARENA_MAX_BYTES = 64 * 1024 };

#define ANCHOR_SETTING "audit.anchor"
#define OPEN_SETTING "audit.openSince"
#define ACCEPTED_SUFFIX " accepted"

/* ---- the anchor ---- */

int audit_anchor_read(struct store *store, struct audit_anchor *ret, struct error *err)
{
    struct arena arena;
    const char *value = NULL;
    struct audit_anchor anchor = {.is_set = true};
    arena_init(&arena, VALUE_ARENA_MAX_BYTES);
    int rc = store_setting_get(store, ANCHOR_SETTING, &arena, &value, err);
    if (rc == -STATUS_NOT_FOUND) {
        arena_free(&arena);
        *ret = (struct audit_anchor){0};
        return 0;
    }
    struct str text = str_from(value);
    anchor.is_loss_accepted = str_ends_with(text, STR(ACCEPTED_SUFFIX));
    text.len -= anchor.is_loss_accepted ? sizeof ACCEPTED_SUFFIX - 1 : 0;
    if (rc == 0 && !chain_parse(text, &anchor.chain)) {
        rc = error_set(err, STATUS_DATA_LOSS, "the store's setting %s cannot be read",
                       ANCHOR_SETTING);
    }
    arena_free(&arena);
    if (rc == 0) {
        *ret = anchor;
    }
    return rc;
}

int audit_anchor_accept_loss(struct store *store, struct error *err)
{
    char value[CHAIN_TEXT_SIZE + sizeof ACCEPTED_SUFFIX];
    struct audit_anchor anchor;
    int rc = audit_anchor_read(store, &anchor, err);
    if (rc) {
        return rc;
    }
    if (!anchor.is_set) {
        return error_set(err, STATUS_NOT_FOUND,
                         "no checkpoint was ever noted, so no line can be missed");
    }
    chain_format(&anchor.chain, value);
    (void)snprintf(value + strlen(value), sizeof ACCEPTED_SUFFIX, "%s", ACCEPTED_SUFFIX);
    return store_setting_put(store, ANCHOR_SETTING, value, err);
}

/* A store from before there was this setting: what was open at the last checkpoint is not looked
 * for, rather than the whole log be read. */
static int read_open_since(struct store *store, const struct audit_anchor *anchor, uint64_t *ret,
                           struct error *err)
{
    struct arena arena;
    const char *value = NULL;
    arena_init(&arena, VALUE_ARENA_MAX_BYTES);
    int rc = store_setting_get(store, OPEN_SETTING, &arena, &value, err);
    uint64_t since = anchor->is_set ? anchor->chain.sequence : 1;
    if (rc == 0) {
        since = strtoull(value, NULL, 10);
    }
    *ret = since > 0 ? since : 1;
    arena_free(&arena);
    return rc == -STATUS_NOT_FOUND ? 0 : rc;
}

/* Without waiting for the disk: an older anchor is a good one, too. */
static void note_anchor(void *arg, const struct chain *checkpoint)
{
    const struct gateway *g = arg;
    char value[CHAIN_TEXT_SIZE];
    char since[24];
    struct error err;
    chain_format(checkpoint, value);
    (void)snprintf(since, sizeof since, "%" PRIu64, audit_log_open_since(g->audit));
    int rc = store_begin_transient(g->store, &err);
    if (rc == 0) {
        rc = store_setting_put(g->store, ANCHOR_SETTING, value, &err);
        rc = rc ? rc : store_setting_put(g->store, OPEN_SETTING, since, &err);
        rc = store_end(g->store, rc, &err);
    }
    if (rc) {
        log_error("the audit log's anchor is not noted: %s", err.text);
    }
}

static int sync_anchor(void *arg, struct error *err)
{
    const struct gateway *g = arg;
    return store_sync(g->store, err);
}

/* ---- the key ---- */

static int key_paths(const struct gateway_config *c, char key[PATH_MAX], char public_key[PATH_MAX],
                     struct error *err)
{
    int n = snprintf(key, PATH_MAX, "%s/audit.key", c->state_dir);
    (void)snprintf(public_key, PATH_MAX, "%s/audit.pub", c->state_dir);
    return n > 0 && n < PATH_MAX ? 0
                                 : error_set(err, STATUS_INVALID_ARGUMENT, "stateDir is too long");
}

int audit_state_make_key(const struct gateway_config *c, struct store *store, struct error *err)
{
    char key[PATH_MAX];
    char public_key[PATH_MAX];
    struct audit_anchor anchor;
    if (key_paths(c, key, public_key, err) < 0) {
        return -err->status;
    }
    if (access(key, F_OK) == 0) {
        return 0;
    }
    int rc = audit_anchor_read(store, &anchor, err);
    if (rc == 0 && anchor.is_set && !anchor.is_loss_accepted) {
        rc = error_set(
            err, STATUS_FAILED_PRECONDITION,
            "'%s' is missing, which signs the audit log: put it back from a copy. If it is "
            "lost, `cordium-gateway audit accept-loss` lets the gateway make a new one",
            key);
    }
    return rc ? rc : signing_key_make(key, public_key, err);
}

/* ---- the log ---- */

static struct audit_log_options options_of(struct gateway *g)
{
    const struct gateway_config *c = g->config;
    return (struct audit_log_options){
        .dir = c->audit_dir,
        .rotate_bytes = (uint64_t)c->audit_rotate_mebibytes << 20,
        .checkpoint_lines = c->audit_checkpoint_lines,
        .checkpoint_seconds = c->audit_checkpoint_seconds,
        .retention_days = c->audit_retention_days,
        .retention_bytes = (uint64_t)c->audit_retention_mebibytes << 20,
        .on_checkpoint = note_anchor,
        .sync_anchor = sync_anchor,
        .arg = g,
    };
}

int audit_state_open_log(struct gateway *g, struct uv_loop_s *loop, struct error *err)
{
    char key[PATH_MAX];
    char public_key[PATH_MAX];
    struct audit_anchor anchor;
    struct audit_log_options options = options_of(g);
    int rc = audit_state_make_key(g->config, g->store, err);
    rc = rc ? rc : audit_anchor_read(g->store, &anchor, err);
    rc = rc ? rc : key_paths(g->config, key, public_key, err);
    rc = rc ? rc : signing_key_load(key, &options.key, err);
    if (rc) {
        return rc;
    }
    options.anchor = anchor.is_set ? &anchor.chain : NULL;
    options.accept_loss = anchor.is_loss_accepted;
    rc = read_open_since(g->store, &anchor, &options.open_since, err);
    if (rc) {
        signing_key_free(options.key);
        return rc;
    }
    rc = audit_log_open(loop, &options, &g->audit, err);
    if (rc) {
        signing_key_free(options.key);
    }
    return rc;
}
