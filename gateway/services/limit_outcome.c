#include "gateway/services/limit_outcome.h"

#include "policy/base/json_out.h"

enum { OUTCOME_MAX_BYTES = 4 << 10 };

static void put_limit(struct json_out *j, const struct limit_sources *sources, const char *name,
                      size_t offset, uint32_t asked, uint32_t value)
{
    json_key(j, name);
    json_begin_object(j);
    if (asked > 0) {
        json_member_int(j, "asked", asked);
    }
    json_member_int(j, "value", value);
    json_member_string(j, "setBy", limit_source_name(limit_source_of(sources, offset, value)));
    json_end_object(j);
}

void limit_outcome_set(struct request *r, const struct limit_sources *sources,
                       const Cordium__Workspace__Spec__Limit *limit)
{
    const struct limit_values asked =
        limit_values_of(sources->is_build ? NULL : sources->workspace);
    const struct limit_values values = limit_values_of(limit);
    struct buf out;
    buf_init(&out, OUTCOME_MAX_BYTES);
    struct json_out j = json_out_to(&out);
    json_begin_object(&j);
    json_key(&j, "workspaceLimits");
    json_begin_object(&j);
    put_limit(&j, sources, "cpuMillicores", offsetof(struct limit_values, cpu_millicores),
              asked.cpu_millicores, values.cpu_millicores);
    put_limit(&j, sources, "memoryMegabytes", offsetof(struct limit_values, memory_megabytes),
              asked.memory_megabytes, values.memory_megabytes);
    put_limit(&j, sources, "storageMegabytes", offsetof(struct limit_values, storage_megabytes),
              asked.storage_megabytes, values.storage_megabytes);
    json_end_object(&j);
    json_end_object(&j);
    if (!out.failed) {
        request_set_outcome(r, buf_str(&out));
    }
    buf_free(&out);
}
