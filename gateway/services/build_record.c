#include "gateway/services/build_record.h"

#include <string.h>

#include "gateway/rpc/codec.h"
#include "gateway/state/resource.h"

static int no_room(void)
{
    return -STATUS_RESOURCE_EXHAUSTED;
}

int build_check_tags(size_t count, char **tags, struct error *err)
{
    if (count > BUILD_TAGS_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "tags has %zu entries; at most %d are allowed", count, BUILD_TAGS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        size_t n = strlen(tags[i]);
        bool is_fine = n >= 2 && n <= 16;
        for (size_t k = 0; k < n && is_fine; k++) {
            is_fine = tags[i][k] > ' ' && tags[i][k] < 0x7f;
        }
        if (!is_fine) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "tags[%zu] '%.40s' must be 2 to 16 visible ASCII characters", i,
                             tags[i]);
        }
    }
    return 0;
}

static Cordium__Template__Status__BuildInfo *info_of(Cordium__Template *template_,
                                                     struct arena *arena)
{
    if (!template_->status) {
        template_->status = CODEC_NEW(arena, Cordium__Template__Status, cordium__template__status);
    }
    if (template_->status && !template_->status->build_info) {
        template_->status->build_info = CODEC_NEW(arena, Cordium__Template__Status__BuildInfo,
                                                  cordium__template__status__build_info);
    }
    return template_->status ? template_->status->build_info : NULL;
}

static int set_tags(build_record *build, size_t count, char **tags, struct arena *arena)
{
    size_t n = count > 0 ? count : 1;
    build->tags = arena_calloc(arena, n, sizeof *build->tags);
    for (size_t i = 0; build->tags && i < n; i++) {
        build->tags[i] = arena_strdup(arena, count > 0 ? tags[i] : "latest");
        if (!build->tags[i]) {
            return no_room();
        }
    }
    build->n_tags = n;
    return build->tags ? 0 : no_room();
}

int build_begin(Cordium__Template *template_, const char *id, size_t tag_count, char **tags,
                int64_t wall_ns, struct arena *arena)
{
    Cordium__Template__Status__BuildInfo *info = info_of(template_, arena);
    build_record *build = CODEC_NEW(arena, Cordium__Template__Status__BuildInfo__Build,
                                    cordium__template__status__build_info__build);
    if (!info || !build || set_tags(build, tag_count, tags, arena)) {
        return no_room();
    }
    size_t count = info->n_builds + 1 > BUILDS_KEPT_MAX ? BUILDS_KEPT_MAX : info->n_builds + 1;
    build_record **list = arena_calloc(arena, count, sizeof(build_record *));
    build->id = arena_strdup(arena, id);
    build->started_at = resource_timestamp(wall_ns, arena);
    build->state = BUILD_STATE(RUNNING);
    if (!list || !build->id || !build->started_at) {
        return no_room();
    }
    list[0] = build;
    for (size_t i = 1; i < count; i++) {
        list[i] = info->builds[i - 1];
    }
    info->builds = list;
    info->n_builds = count;
    info->current_running_build_id = build->id;
    return 0;
}

build_record *build_find(const Cordium__Template *template_, const char *id)
{
    const Cordium__Template__Status__BuildInfo *info =
        template_->status ? template_->status->build_info : NULL;
    for (size_t i = 0; info && i < info->n_builds; i++) {
        if (strcmp(info->builds[i]->id, id) == 0) {
            return info->builds[i];
        }
    }
    return NULL;
}

int build_end(Cordium__Template *template_, const char *id,
              const Cordium__Workspace__Status__Failure *failure, bool is_canceled, int64_t wall_ns,
              struct arena *arena)
{
    build_record *build = build_find(template_, id);
    if (!build || build->state != BUILD_STATE(RUNNING)) {
        return 0;
    }
    Cordium__Template__Status__BuildInfo *info = template_->status->build_info;
    build->done_at = resource_timestamp(wall_ns, arena);
    build->is_canceled = is_canceled;
    build->state = failure || is_canceled ? BUILD_STATE(FAILED) : BUILD_STATE(READY);
    if (failure) {
        build->failure = CODEC_COPY(arena, Cordium__Workspace__Status__Failure, failure);
    }
    if (strcmp(info->current_running_build_id, id) == 0) {
        info->current_running_build_id = arena_strdup(arena, "");
    }
    if (build->state == BUILD_STATE(READY)) {
        info->current_ready_build_id = build->id;
    }
    return build->done_at && info->current_running_build_id && (!failure || build->failure)
               ? 0
               : no_room();
}
