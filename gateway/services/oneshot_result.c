#include <stdio.h>
#include <string.h>

#include "gateway/audit/audit_out.h"
#include "gateway/audit/denial_text.h"
#include "gateway/audit/hex.h"
#include "gateway/executor_link.h"
#include "gateway/gateway.h"
#include "gateway/rpc/codec.h"
#include "gateway/services/isolation.h"
#include "gateway/services/oneshot.h"
#include "gateway/services/workspace_run.h"
#include "gateway/state/resource.h"
#include "policy/base/json_out.h"

/* A run as the client sees it. */

#define SOURCE(name) EXT__RUN_RESULT__SOURCE__##name

/* --- outcome --- */

static const char *signal_name(int number, struct arena *arena)
{
    const char *abbreviation = sigabbrev_np(number);
    return abbreviation ? arena_printf(arena, "SIG%s", abbreviation)
                        : arena_printf(arena, "SIG%d", number);
}

static const char *killed_by(const struct exec_outcome *outcome)
{
    if (!outcome->has_event || !outcome->event.killed_by_us) {
        return "";
    }
    switch (outcome->event.kill_reason) {
    case EXECUTOR_KILL_DEADLINE:
        return "deadline";
    case EXECUTOR_KILL_OUTPUT_LIMIT:
        return "output limit";
    case EXECUTOR_KILL_CPU_LIMIT:
        return "cpu limit";
    case EXECUTOR_KILL_CANCELLED:
    case EXECUTOR_KILL_ASKED:
        return "cancel";
    case EXECUTOR_KILL_SANDBOX_END:
        return "end of the sandbox";
    case EXECUTOR_KILL_NONE:
        break;
    }
    return "";
}

/* What a person reads beside the outcome's word. */
static char *detail_of(const struct oneshot *o, struct arena *arena)
{
    const struct oneshot_limit *limits = o->plan.limits;
    const char *text = o->outcome.text;
    const char *more = o->files_error;
    switch (o->outcome.kind) {
    case EXEC_TIMED_OUT:
        text = arena_printf(arena, "the limit of %llu ms was reached (wallMs)",
                            (unsigned long long)limits[ONESHOT_WALL_MS].value);
        break;
    case EXEC_CPU_LIMIT:
        text = arena_printf(arena, "the limit of %llu ms of CPU time was reached (cpuMs)",
                            (unsigned long long)limits[ONESHOT_CPU_MS].value);
        break;
    case EXEC_OOM_KILLED:
        text = arena_printf(arena, "the limit of %llu MiB of memory was reached (memoryMegabytes)",
                            (unsigned long long)limits[ONESHOT_MEMORY_MEGABYTES].value);
        break;
    case EXEC_OUTPUT_LIMIT:
        text = "the output limit was reached (stdoutBytes, stderrBytes)";
        break;
    case EXEC_EXITED:
    case EXEC_SIGNALED:
    case EXEC_CANCELLED:
    case EXEC_LOST:
    case EXEC_NOT_STARTED:
        break;
    }
    return arena_printf(arena, "%s%s%s", text ? text : "", text && text[0] && more[0] ? "; " : "",
                        more);
}

static int add_denials(const struct executor_network_denied *denied, Ext__RunResult__Facts *facts,
                       struct arena *arena)
{
    facts->network_denied = denial_packets(denied);
    facts->denied_destinations =
        arena_calloc(arena, denied->count + 1, sizeof *facts->denied_destinations);
    for (size_t i = 0; facts->denied_destinations && i < denied->count; i++) {
        const struct executor_denial *denial = &denied->entries[i];
        char address[DENIAL_ADDRESS_SIZE];
        Ext__RunResult__Destination *d =
            CODEC_NEW(arena, Ext__RunResult__Destination, ext__run_result__destination);
        denial_address_format(denial, address);
        if (!d || !(d->address = arena_strdup(arena, address))) {
            return -STATUS_RESOURCE_EXHAUSTED;
        }
        d->port = denial->port;
        d->protocol = arena_strdup(arena, denial_protocol(denial));
        d->reason = arena_strdup(arena, denial_reason(denial));
        d->packets = denial->packets;
        if (!d->protocol || !d->reason) {
            return -STATUS_RESOURCE_EXHAUSTED;
        }
        facts->denied_destinations[facts->n_denied_destinations++] = d;
    }
    return facts->denied_destinations ? 0 : -STATUS_RESOURCE_EXHAUSTED;
}

static int add_outcome(const struct oneshot *o, Ext__RunResult *r, struct arena *arena)
{
    const struct exec_outcome *outcome = &o->outcome;
    const struct executor_run_exit *e = &outcome->event;
    r->outcome = arena_strdup(arena, exec_outcome_name(outcome));
    r->detail = detail_of(o, arena);
    if (outcome->kind == EXEC_EXITED || outcome->kind == EXEC_NOT_STARTED) {
        r->has_exit_code_case = EXT__RUN_RESULT__HAS_EXIT_CODE_EXIT_CODE;
        r->exit_code = outcome->code;
    }
    r->signal = outcome->signal;
    if (outcome->signal) {
        r->signal_name = (char *)(uintptr_t)signal_name(outcome->signal, arena);
    }
    r->facts = CODEC_NEW(arena, Ext__RunResult__Facts, ext__run_result__facts);
    r->usage = CODEC_NEW(arena, Ext__RunUsage, ext__run_usage);
    if (!r->outcome || !r->detail || !r->signal_name || !r->facts || !r->usage) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    r->facts->disk_full = o->is_disk_full;
    r->facts->inodes_full = o->are_inodes_full;
    r->facts->killed_by = arena_strdup(arena, killed_by(outcome));
    if (add_denials(&o->network_denied, r->facts, arena)) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    r->usage->disk_bytes = o->disk_bytes;
    if (outcome->has_event) {
        r->facts->oom_kills = e->oom_kills;
        r->facts->pids_denied = e->pids_denied;
        exec_outcome_fill_usage(e, r->usage);
    }
    return r->facts->killed_by ? 0 : -STATUS_RESOURCE_EXHAUSTED;
}

/* --- output --- */

static int add_merged(const struct oneshot *o, Ext__RunResult *r, struct arena *arena)
{
    struct bytes in = bytes_over(o->merged.ptr, o->merged.len);
    size_t count = 0;
    uint8_t stream;
    struct str bytes;
    while (bytes_read_u8(&in, &stream) && bytes_read_str(&in, bytes_left(&in), &bytes)) {
        count++;
    }
    r->merged = arena_calloc(arena, count + 1, sizeof(Ext__RunResult__Chunk *));
    if (!r->merged) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    in = bytes_over(o->merged.ptr, o->merged.len);
    while (r->n_merged < count && bytes_read_u8(&in, &stream) &&
           bytes_read_str(&in, bytes_left(&in), &bytes)) {
        Ext__RunResult__Chunk *chunk =
            CODEC_NEW(arena, Ext__RunResult__Chunk, ext__run_result__chunk);
        if (!chunk || oneshot_text_or_data(bytes, arena, &chunk->text, &chunk->data)) {
            return -STATUS_RESOURCE_EXHAUSTED;
        }
        chunk->stream = stream == EXEC_STDOUT ? EXT__RUN_RESULT__CHUNK__STREAM__STDOUT
                                              : EXT__RUN_RESULT__CHUNK__STREAM__STDERR;
        r->merged[r->n_merged++] = chunk;
    }
    return 0;
}

static int add_output(const struct oneshot *o, Ext__RunResult *r, struct arena *arena)
{
    r->stdout = oneshot_output_message(&o->output[EXEC_STDOUT], arena);
    r->stderr = oneshot_output_message(&o->output[EXEC_STDERR], arena);
    r->files = o->files.items;
    r->n_files = o->files.count;
    r->files_left_out = o->files.left_out;
    return r->stdout && r->stderr ? add_merged(o, r, arena) : -STATUS_RESOURCE_EXHAUSTED;
}

/* --- limits and layers --- */

static int add_limits(const struct oneshot *o, Ext__RunResult *r, struct arena *arena)
{
    r->limits = arena_calloc(arena, ONESHOT_LIMIT_COUNT, sizeof(Ext__RunResult__Limit *));
    if (!r->limits) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    for (int i = 0; i < ONESHOT_LIMIT_COUNT; i++) {
        const struct oneshot_limit *l = &o->plan.limits[i];
        Ext__RunResult__Limit *m = CODEC_NEW(arena, Ext__RunResult__Limit, ext__run_result__limit);
        if (!m || !(m->name = arena_strdup(arena, l->name))) {
            return -STATUS_RESOURCE_EXHAUSTED;
        }
        m->value = l->value;
        m->maximum = l->maximum;
        m->set_by = l->set_by;
        r->limits[r->n_limits++] = m;
    }
    return 0;
}

static int add_layers(const struct oneshot *o, Ext__RunResult *r, struct arena *arena)
{
    struct isolation_layer layers[ISOLATION_LAYERS_MAX];
    size_t count = isolation_list(o->place, &o->sandbox, layers, arena);
    layers[count++] =
        (struct isolation_layer){"processes", "all of them end with the program", SOURCE(DEFAULT)};
    r->isolation = arena_calloc(arena, count, sizeof(Ext__RunResult__Layer *));
    for (size_t i = 0; r->isolation && i < count; i++) {
        Ext__RunResult__Layer *m = CODEC_NEW(arena, Ext__RunResult__Layer, ext__run_result__layer);
        if (!m || !layers[i].detail || !(m->name = arena_strdup(arena, layers[i].name)) ||
            !(m->detail = arena_strdup(arena, layers[i].detail))) {
            return -STATUS_RESOURCE_EXHAUSTED;
        }
        m->set_by = layers[i].set_by;
        r->isolation[r->n_isolation++] = m;
    }
    return r->isolation ? 0 : -STATUS_RESOURCE_EXHAUSTED;
}

/* --- the whole --- */

static char *template_name(const struct oneshot *o, struct arena *arena)
{
    const Cordium__Template *t = o->place->template_;
    return arena_strdup(arena, t && t->metadata ? t->metadata->name : "");
}

static int add_identity(const struct oneshot *o, Ext__RunResult *r, struct arena *arena)
{
    struct error err;
    char sha256[65];
    if (resource_stamp_new(&r->base, STORE_RUN, o->name, gateway_wall_ns(o->gateway), arena,
                           &err)) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    const Cordium__Workspace__Spec__Image *image = o->place->spec->image;
    const char *url = image && image->type_case == CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_REGISTRY
                          ? image->registry->url
                          : "";
    hex_encode(o->plan.text_sha256, sizeof o->plan.text_sha256, sha256);
    r->metadata->uid = arena_strdup(arena, o->id);
    r->metadata->display_name = arena_strdup(arena, o->plan.program);
    r->run_id = r->metadata->uid;
    r->code_sha256 = arena_strdup(arena, sha256);
    r->request_sha256 = arena_strdup(arena, o->request_sha256);
    r->user_uid = arena_strdup(arena, o->owner_uid);
    r->template_ = template_name(o, arena);
    r->image = arena_strdup(arena, url);
    r->started_at = o->started_at_ns > 0 ? resource_timestamp(o->started_at_ns, arena) : NULL;
    r->state = o->is_running ? EXT__RUN_RESULT__STATE__RUNNING : EXT__RUN_RESULT__STATE__PREPARING;
    return r->metadata->uid && r->metadata->display_name && r->code_sha256 && r->request_sha256 &&
                   r->user_uid && r->template_ && r->image
               ? 0
               : -STATUS_RESOURCE_EXHAUSTED;
}

Ext__RunResult *oneshot_result(const struct oneshot *o, struct arena *arena)
{
    Ext__RunResult *r = CODEC_NEW(arena, Ext__RunResult, ext__run_result);
    if (!r || add_identity(o, r, arena) || add_limits(o, r, arena)) {
        return NULL;
    }
    if (!o->is_over) {
        return r;
    }
    r->state = EXT__RUN_RESULT__STATE__ENDED;
    r->ended_at = resource_timestamp(o->ended_at_ns, arena);
    return add_outcome(o, r, arena) || add_output(o, r, arena) || add_layers(o, r, arena) ? NULL
                                                                                          : r;
}

static void write_limits(struct json_out *j, const Ext__RunResult *result)
{
    json_key(j, "limits");
    json_begin_object(j);
    for (size_t i = 0; i < result->n_limits; i++) {
        json_member_uint(j, result->limits[i]->name, result->limits[i]->value);
    }
    json_end_object(j);
    if (result->n_isolation > 0) {
        json_key(j, "isolation");
        json_begin_array(j);
        for (size_t i = 0; i < result->n_isolation; i++) {
            json_cstring(j, result->isolation[i]->name);
        }
        json_end_array(j);
    }
}

static void write_usage(const Ext__RunUsage *u, struct json_out *j)
{
    json_key(j, "usage");
    json_begin_object(j);
    json_member_uint(j, "cpuUserUs", u->cpu_user_us);
    json_member_uint(j, "cpuSystemUs", u->cpu_system_us);
    json_member_uint(j, "wallMs", u->wall_ms);
    json_member_uint(j, "diskBytes", u->disk_bytes);
    exec_outcome_write_known_usage(u, j);
    json_end_object(j);
}

void oneshot_write_facts(const Ext__RunResult *result, struct buf *out)
{
    struct json_out j = json_out_to(out);
    json_begin_object(&j);
    json_member_string(&j, "runId", result->run_id);
    json_member_string(&j, "outcome", result->outcome);
    if (result->has_exit_code_case == EXT__RUN_RESULT__HAS_EXIT_CODE_EXIT_CODE) {
        json_member_int(&j, "exitCode", result->exit_code);
    }
    if (result->signal) {
        json_member_int(&j, "signal", result->signal);
    }
    audit_put_text(&j, "detail", str_from(result->detail));
    if (result->facts) {
        json_member_int(&j, "oomKills", result->facts->oom_kills);
        json_member_int(&j, "pidsDenied", result->facts->pids_denied);
        json_member_bool(&j, "diskFull", result->facts->disk_full);
        json_member_bool(&j, "inodesFull", result->facts->inodes_full);
        json_member_string_opt(&j, "killedBy", result->facts->killed_by);
        json_member_uint(&j, "networkDenied", result->facts->network_denied);
    }
    if (result->stdout && result->stderr) {
        json_member_uint(&j, "stdoutBytes", result->stdout->total_bytes);
        json_member_uint(&j, "stderrBytes", result->stderr->total_bytes);
    }
    write_limits(&j, result);
    if (result->usage) {
        write_usage(result->usage, &j);
    }
    json_end_object(&j);
}
