#include "gateway/services/limits.h"

#include <stdio.h>
#include <string.h>

static const struct limit_values built_in = {2000, 6000, 20000};

enum { CPU_MILLICORES_MAX = 1000000, MEGABYTES_MAX = 10000000 };

struct limit_values limit_values_of(const Cordium__Workspace__Spec__Limit *limit)
{
    if (!limit) {
        return (struct limit_values){0};
    }
    return (struct limit_values){
        .cpu_millicores = limit->cpu ? limit->cpu->millicores : 0,
        .memory_megabytes = limit->memory ? limit->memory->megabytes : 0,
        .storage_megabytes = limit->storage ? limit->storage->megabytes : 0,
    };
}

static void fill(uint32_t *value, uint32_t from)
{
    if (*value == 0) {
        *value = from;
    }
}

/* What is still 0 comes from the next level. */
static void fill_from(struct limit_values *v, struct limit_values from)
{
    fill(&v->cpu_millicores, from.cpu_millicores);
    fill(&v->memory_megabytes, from.memory_megabytes);
    fill(&v->storage_megabytes, from.storage_megabytes);
}

static void cut(uint32_t *value, uint32_t max)
{
    if (max > 0 && *value > max) {
        *value = max;
    }
}

static void cut_to(struct limit_values *v, struct limit_values max)
{
    cut(&v->cpu_millicores, max.cpu_millicores);
    cut(&v->memory_megabytes, max.memory_megabytes);
    cut(&v->storage_megabytes, max.storage_megabytes);
}

static const Cordium__ClusterConfig__Spec__Workspace__Limit *
cluster_limit(const Cordium__ClusterConfig *cluster)
{
    if (!cluster || !cluster->spec || !cluster->spec->workspace) {
        return NULL;
    }
    return cluster->spec->workspace->limit;
}

static bool is_organization(const Cordium__Space *space)
{
    return space && space->status &&
           space->status->type == CORDIUM__SPACE__STATUS__TYPE__ORGANIZATION;
}

static const Cordium__Space__Spec__Limit *space_limit(const Cordium__Space *space)
{
    return is_organization(space) && space->spec ? space->spec->limit : NULL;
}

struct limit_values limit_effective(const struct limit_sources *sources)
{
    const Cordium__ClusterConfig__Spec__Workspace__Limit *cluster = cluster_limit(sources->cluster);
    const Cordium__Space__Spec__Limit *space = space_limit(sources->space);
    struct limit_values v = {0};
    if (sources->is_build) {
        fill_from(&v, limit_values_of(cluster ? cluster->build_limit : NULL));
        space = NULL;
    } else {
        fill_from(&v, limit_values_of(sources->workspace));
        fill_from(&v, limit_values_of(sources->template_));
        fill_from(&v, limit_values_of(space ? space->default_limit : NULL));
        if (cluster) {
            fill_from(&v, limit_values_of(is_organization(sources->space)
                                              ? cluster->default_organization_space_limit
                                              : cluster->default_user_space_limit));
        }
    }
    fill_from(&v, built_in);
    cut_to(&v, limit_values_of(space ? space->max_limit : NULL));
    cut_to(&v, limit_values_of(cluster ? cluster->max_limit : NULL));
    return v;
}

static uint32_t number_at(const struct limit_values *values, size_t offset)
{
    uint32_t number;
    memcpy(&number, (const char *)values + offset, sizeof number);
    return number;
}

static uint32_t effective_at(const struct limit_sources *sources, size_t offset)
{
    const struct limit_values values = limit_effective(sources);
    return number_at(&values, offset);
}

Ext__RunResult__Source limit_source_of(const struct limit_sources *sources, size_t offset,
                                       uint32_t value)
{
    static const Ext__RunResult__Source levels[] = {EXT__RUN_RESULT__SOURCE__TEMPLATE,
                                                    EXT__RUN_RESULT__SOURCE__SPACE,
                                                    EXT__RUN_RESULT__SOURCE__CLUSTER};
    const struct limit_values asked =
        limit_values_of(sources->is_build ? NULL : sources->workspace);
    if (value > 0 && number_at(&asked, offset) == value) {
        return EXT__RUN_RESULT__SOURCE__CALLER;
    }
    if (effective_at(sources, offset) != value) {
        return EXT__RUN_RESULT__SOURCE__HOST;
    }
    for (int i = 0; i < 3; i++) {
        struct limit_sources fewer = *sources;
        fewer.template_ = i == 0 ? NULL : sources->template_;
        fewer.space = i == 1 ? NULL : sources->space;
        fewer.cluster = i == 2 ? NULL : sources->cluster;
        if (effective_at(&fewer, offset) != value) {
            return levels[i];
        }
    }
    return EXT__RUN_RESULT__SOURCE__DEFAULT;
}

const char *limit_source_name(Ext__RunResult__Source source)
{
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&ext__run_result__source__descriptor, (int)source);
    return value ? value->name : "SOURCE_UNSET";
}

static int check_asked(struct limit_values asked, struct limit_values max, const char *whose,
                       struct error *err)
{
    const struct {
        const char *name;
        uint32_t asked;
        uint32_t max;
    } all[] = {
        {"cpu.millicores", asked.cpu_millicores, max.cpu_millicores},
        {"memory.megabytes", asked.memory_megabytes, max.memory_megabytes},
        {"storage.megabytes", asked.storage_megabytes, max.storage_megabytes},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].max > 0 && all[i].asked > all[i].max) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "spec.limit.%s is %u, over the maximum of %u of %s: ask for less, or "
                             "have the maximum raised",
                             all[i].name, all[i].asked, all[i].max, whose);
        }
    }
    return 0;
}

int limit_check_asked(const struct limit_sources *sources, struct error *err)
{
    const Cordium__ClusterConfig__Spec__Workspace__Limit *cluster = cluster_limit(sources->cluster);
    const Cordium__Space__Spec__Limit *space = space_limit(sources->space);
    struct limit_values asked = limit_values_of(sources->workspace);
    char whose[192] = "the Space";
    if (sources->space && sources->space->metadata) {
        (void)snprintf(whose, sizeof whose, "Space '%s'", sources->space->metadata->name);
    }
    int status = check_asked(asked, limit_values_of(space ? space->max_limit : NULL), whose, err);
    return status ? status
                  : check_asked(asked, limit_values_of(cluster ? cluster->max_limit : NULL),
                                "the ClusterConfig", err);
}

Cordium__Workspace__Spec__Limit *limit_to_message(struct limit_values values, struct arena *arena)
{
    Cordium__Workspace__Spec__Limit *limit = arena_alloc(arena, sizeof(*limit));
    Cordium__Workspace__Spec__Limit__CPU *cpu = arena_alloc(arena, sizeof(*cpu));
    Cordium__Workspace__Spec__Limit__Memory *memory = arena_alloc(arena, sizeof(*memory));
    Cordium__Workspace__Spec__Limit__Storage *storage = arena_alloc(arena, sizeof(*storage));
    if (!limit || !cpu || !memory || !storage) {
        return NULL;
    }
    cordium__workspace__spec__limit__init(limit);
    cordium__workspace__spec__limit__cpu__init(cpu);
    cordium__workspace__spec__limit__memory__init(memory);
    cordium__workspace__spec__limit__storage__init(storage);
    cpu->millicores = values.cpu_millicores;
    memory->megabytes = values.memory_megabytes;
    storage->megabytes = values.storage_megabytes;
    limit->cpu = cpu;
    limit->memory = memory;
    limit->storage = storage;
    return limit;
}

static int check_number(uint32_t value, uint32_t max, const char *field, const char *what,
                        struct error *err)
{
    if (value > max) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "%s.%s is %u, the maximum is %u: ask for less", field, what, value, max);
    }
    return 0;
}

int limit_validate(const Cordium__Workspace__Spec__Limit *limit, const char *field,
                   struct error *err)
{
    struct limit_values v = limit_values_of(limit);
    int status = check_number(v.cpu_millicores, CPU_MILLICORES_MAX, field, "cpu.millicores", err);
    if (!status) {
        status = check_number(v.memory_megabytes, MEGABYTES_MAX, field, "memory.megabytes", err);
    }
    if (!status) {
        status = check_number(v.storage_megabytes, MEGABYTES_MAX, field, "storage.megabytes", err);
    }
    return status;
}

static uint32_t quota(uint32_t configured, uint32_t fallback, uint32_t otherwise)
{
    return configured ? configured : fallback ? fallback : otherwise;
}

uint32_t limit_quota_workspaces(const Cordium__ClusterConfig *cluster, uint32_t fallback)
{
    const Cordium__ClusterConfig__Spec__Workspace__Limit *limit = cluster_limit(cluster);
    return quota(limit ? limit->max_per_user : 0, fallback, QUOTA_WORKSPACES_PER_USER);
}

uint32_t limit_quota_active_workspaces(const Cordium__ClusterConfig *cluster, uint32_t fallback)
{
    const Cordium__ClusterConfig__Spec__Workspace__Limit *limit = cluster_limit(cluster);
    return quota(limit ? limit->max_active_per_user : 0, fallback,
                 QUOTA_ACTIVE_WORKSPACES_PER_USER);
}

uint32_t limit_quota_snapshots(const Cordium__ClusterConfig *cluster)
{
    const Cordium__ClusterConfig__Spec__Workspace__Limit *limit = cluster_limit(cluster);
    return quota(limit ? limit->max_snapshots_per_user : 0, 0, QUOTA_SNAPSHOTS_PER_USER);
}
