#include "gateway/services/run_compare.h"

#include <inttypes.h>
#include <string.h>

#include "gateway/audit/hex.h"
#include "gateway/auditfile/hash.h"
#include "gateway/rpc/codec.h"

struct comparison {
    struct arena *arena;
    struct hasher *hasher;
    Ext__ReplayRunResponse *message;
    size_t room;
    bool has_failed;
};

/* NULL counts as "not there". */
static void compare(struct comparison *c, const char *what, const char *before, const char *after)
{
    if (cstr_eq(before, after)) {
        return;
    }
    Ext__ReplayRunResponse__Difference *d = CODEC_NEW(c->arena, Ext__ReplayRunResponse__Difference,
                                                      ext__replay_run_response__difference);
    if (!d || c->message->n_differences == c->room) {
        c->has_failed = true;
        return;
    }
    d->what = arena_strdup(c->arena, what);
    d->before = arena_strdup(c->arena, before ? before : "");
    d->after = arena_strdup(c->arena, after ? after : "");
    c->has_failed = c->has_failed || !d->what || !d->before || !d->after;
    c->message->differences[c->message->n_differences++] = d;
}

static const char *number(struct comparison *c, int64_t value)
{
    const char *text = arena_printf(c->arena, "%" PRId64, value);
    c->has_failed = c->has_failed || !text;
    return text;
}

static bool add(struct comparison *c, const char *text, const ProtobufCBinaryData *data)
{
    return hasher_add(c->hasher, str_from(text)) &&
           hasher_add(c->hasher, str_make(data->data, data->len));
}

static const char *describe(struct comparison *c, uint64_t bytes, uint64_t dropped)
{
    uint8_t digest[HASH_BYTES];
    char hex[HASH_HEX_SIZE] = "";
    if (!hasher_end(c->hasher, digest)) {
        c->has_failed = true;
        return NULL;
    }
    hex_encode(digest, sizeof digest, hex);
    const char *text = dropped ? arena_printf(c->arena,
                                              "sha256 %s of what was kept, %" PRIu64
                                              " bytes, %" PRIu64 " of them dropped",
                                              hex, bytes, dropped)
                               : arena_printf(c->arena, "sha256 %s, %" PRIu64 " bytes", hex, bytes);
    c->has_failed = c->has_failed || !text;
    return text;
}

static const char *describe_output(struct comparison *c, const Ext__RunOutput *o)
{
    if (!o) {
        return NULL;
    }
    bool ok =
        hasher_begin(c->hasher) && add(c, o->text, &o->data) && add(c, o->tail_text, &o->tail_data);
    c->has_failed = c->has_failed || !ok;
    return ok ? describe(c, o->total_bytes, o->dropped_bytes) : NULL;
}

static const char *describe_file(struct comparison *c, const Ext__RunCollected *file)
{
    if (!file) {
        return NULL;
    }
    if (file->skipped[0]) {
        return file->skipped;
    }
    bool ok = hasher_begin(c->hasher) && add(c, file->text, &file->data);
    c->has_failed = c->has_failed || !ok;
    return ok ? describe(c, file->size_bytes, 0) : NULL;
}

static const Ext__RunCollected *find_file(const Ext__RunResult *r, const char *path)
{
    for (size_t i = 0; i < r->n_files; i++) {
        if (strcmp(r->files[i]->path, path) == 0) {
            return r->files[i];
        }
    }
    return NULL;
}

static void compare_file(struct comparison *c, const char *path, const Ext__RunCollected *before,
                         const Ext__RunCollected *after)
{
    const char *what = arena_printf(c->arena, "files/%s", path);
    c->has_failed = c->has_failed || !what;
    if (what) {
        compare(c, what, describe_file(c, before), describe_file(c, after));
    }
}

static void compare_files(struct comparison *c, const Ext__RunResult *before,
                          const Ext__RunResult *after)
{
    for (size_t i = 0; i < before->n_files; i++) {
        compare_file(c, before->files[i]->path, before->files[i],
                     find_file(after, before->files[i]->path));
    }
    for (size_t i = 0; i < after->n_files; i++) {
        if (!find_file(before, after->files[i]->path)) {
            compare_file(c, after->files[i]->path, NULL, after->files[i]);
        }
    }
}

static const char *exit_code(struct comparison *c, const Ext__RunResult *r)
{
    return r->has_exit_code_case == EXT__RUN_RESULT__HAS_EXIT_CODE_EXIT_CODE
               ? number(c, r->exit_code)
               : NULL;
}

int run_compare(const Ext__RunResult *before, const Ext__RunResult *after, struct arena *arena,
                Ext__ReplayRunResponse *ret)
{
    enum { SINGLE_FACTS = 8 };
    struct comparison c = {.arena = arena, .message = ret, .hasher = hasher_new()};
    c.room = SINGLE_FACTS + before->n_files + after->n_files;
    ret->differences = arena_calloc(arena, c.room, sizeof *ret->differences);
    if (!c.hasher || !ret->differences) {
        hasher_free(c.hasher);
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    compare(&c, "outcome", before->outcome, after->outcome);
    compare(&c, "exit_code", exit_code(&c, before), exit_code(&c, after));
    compare(&c, "signal", before->signal_name, after->signal_name);
    compare(&c, "image", before->image, after->image);
    compare(&c, "stdout", describe_output(&c, before->stdout), describe_output(&c, after->stdout));
    compare(&c, "stderr", describe_output(&c, before->stderr), describe_output(&c, after->stderr));
    compare_files(&c, before, after);
    ret->is_same = ret->n_differences == 0;
    hasher_free(c.hasher);
    return c.has_failed ? -STATUS_RESOURCE_EXHAUSTED : 0;
}
