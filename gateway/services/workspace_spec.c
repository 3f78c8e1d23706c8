#include "gateway/services/workspace_spec.h"

#include <assert.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/identity/token.h"
#include "gateway/rpc/codec.h"
#include "policy/base/bytes.h"

static int no_room(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The workspace's spec is too large");
}

int workspace_spec_merge(const Cordium__Template__Spec *template_,
                         const Cordium__Workspace__Spec *workspace, struct arena *arena,
                         Cordium__Workspace__Spec **ret, struct error *err)
{
    Cordium__Workspace__Spec base = CORDIUM__WORKSPACE__SPEC__INIT;
    if (template_) {
        base.image = template_->image;
        base.runtime = template_->runtime;
        base.repository = template_->repository;
        base.n_additional_repositories = template_->n_additional_repositories;
        base.additional_repositories = template_->additional_repositories;
        base.limit = template_->limit;
        base.n_vars = template_->n_vars;
        base.vars = template_->vars;
    }
    Cordium__Workspace__Spec *merged = CODEC_COPY(arena, Cordium__Workspace__Spec, &base);
    if (!merged) {
        return no_room(err);
    }
    if (workspace) {
        int rc = codec_merge(&merged->base, &workspace->base, arena, err);
        if (rc) {
            return rc;
        }
    }
    *ret = merged;
    return 0;
}

/* --- variables --- */

/* The value that counts for a name; "" when there is none. */
static const char *find_var(const struct workspace_vars *vars, struct str name)
{
    for (size_t i = vars->count; i > 0; i--) {
        if (str_is(name, vars->list[i - 1]->name)) {
            return vars->list[i - 1]->value;
        }
    }
    return "";
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/* Reads "${{ vars.NAME }}" at p; returns what follows, or NULL when it is something else. */
static const char *read_reference(const char *p, struct str *ret_name)
{
    if (strncmp(p, "${{", 3) != 0) {
        return NULL;
    }
    p += 3 + strspn(p + 3, " \t");
    if (strncmp(p, "vars.", 5) != 0) {
        return NULL;
    }
    p += 5;
    const char *name = p;
    while (is_name_char(*p)) {
        p++;
    }
    *ret_name = str_make(name, (size_t)(p - name));
    p += strspn(p, " \t");
    return ret_name->len > 0 && strncmp(p, "}}", 2) == 0 ? p + 2 : NULL;
}

const char *workspace_vars_expand(const struct workspace_vars *vars, const char *text,
                                  struct arena *arena)
{
    if (!strstr(text, "${{")) {
        return text;
    }
    struct buf out;
    buf_init(&out, 1024 * 1024); /* a spec's longest text is 5000 bytes with few references */
    const char *p = text;
    while (*p) {
        struct str name;
        const char *after = read_reference(p, &name);
        if (after) {
            buf_add_cstr(&out, find_var(vars, name));
            p = after;
        } else {
            buf_add_u8(&out, (uint8_t)*p++);
        }
    }
    const char *result = out.failed ? NULL : arena_strndup(arena, (const char *)out.ptr, out.len);
    buf_free(&out);
    return result ? result : NULL;
}

/* Texts of messages are char * that are never written to; the cast below keeps to that. */
static int expand(const struct workspace_vars *vars, char **text, struct arena *arena)
{
    const char *result = workspace_vars_expand(vars, *text, arena);
    if (!result) {
        return -STATUS_RESOURCE_EXHAUSTED;
    }
    *text = (char *)(uintptr_t)result;
    return 0;
}

static int expand_image(const struct workspace_vars *vars, Cordium__Workspace__Spec__Image *image,
                        struct arena *arena)
{
    switch ((int)image->type_case) {
    case CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_DOCKERFILE:
        return image->dockerfile->type_case == CORDIUM__WORKSPACE__SPEC__IMAGE__DOCKERFILE__TYPE_URL
                   ? expand(vars, &image->dockerfile->url, arena)
                   : 0;
    case CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_REGISTRY:
        return expand(vars, &image->registry->url, arena);
    case CORDIUM__WORKSPACE__SPEC__IMAGE__TYPE_GIT:
        return expand(vars, &image->git->url, arena) ||
                       expand(vars, &image->git->checkout, arena) ||
                       expand(vars, &image->git->dockerfile, arena) ||
                       expand(vars, &image->git->context, arena)
                   ? -STATUS_RESOURCE_EXHAUSTED
                   : 0;
    default:
        return 0;
    }
}

static int expand_repository(const struct workspace_vars *vars,
                             Cordium__Workspace__Spec__Repository *repository, struct arena *arena)
{
    if (!repository) {
        return 0;
    }
    int rc = expand(vars, &repository->url, arena);
    if (!rc && repository->clone_options) {
        rc = expand(vars, &repository->clone_options->branch, arena);
        rc = rc ? rc : expand(vars, &repository->clone_options->checkout, arena);
    }
    return rc;
}

int workspace_tasks_expand(const struct workspace_vars *vars, size_t count,
                           Cordium__Workspace__Spec__Runtime__Task **tasks, struct arena *arena,
                           struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        Cordium__Workspace__Spec__Runtime__Task *task = tasks[i];
        int rc = expand(vars, &task->run, arena);
        rc = rc ? rc : expand(vars, &task->working_dir, arena);
        for (size_t k = 0; !rc && k < task->n_env_vars; k++) {
            rc = expand(vars, &task->env_vars[k]->value, arena);
        }
        if (rc) {
            return no_room(err);
        }
    }
    return 0;
}

static int expand_runtime(const struct workspace_vars *vars,
                          Cordium__Workspace__Spec__Runtime *runtime, struct arena *arena,
                          struct error *err)
{
    for (size_t i = 0; i < runtime->n_env_vars; i++) {
        Cordium__Workspace__Spec__Runtime__EnvVar *env = runtime->env_vars[i];
        if (env->type_case == CORDIUM__WORKSPACE__SPEC__RUNTIME__ENV_VAR__TYPE_VALUE &&
            expand(vars, &env->value, arena)) {
            return no_room(err);
        }
    }
    return workspace_tasks_expand(vars, runtime->n_tasks, runtime->tasks, arena, err);
}

int workspace_spec_expand(Cordium__Workspace__Spec *spec,
                          const Cordium__StartWorkspaceRequest__Config *config, struct arena *arena,
                          struct error *err)
{
    size_t extra = config ? config->n_vars : 0;
    Cordium__Workspace__Spec__Var **list = arena_calloc(arena, spec->n_vars + extra, sizeof *list);
    if (!list) {
        return no_room(err);
    }
    for (size_t i = 0; i < spec->n_vars; i++) {
        list[i] = spec->vars[i];
    }
    for (size_t i = 0; i < extra; i++) {
        list[spec->n_vars + i] = CODEC_COPY(arena, Cordium__Workspace__Spec__Var, config->vars[i]);
        if (!list[spec->n_vars + i]) {
            return no_room(err);
        }
    }
    spec->vars = list;
    spec->n_vars += extra;
    struct workspace_vars vars = {list, spec->n_vars};
    int rc = spec->image ? expand_image(&vars, spec->image, arena) : 0;
    rc = rc ? rc : expand_repository(&vars, spec->repository, arena);
    for (size_t i = 0; !rc && i < spec->n_additional_repositories; i++) {
        rc = expand_repository(&vars, spec->additional_repositories[i]->repository, arena);
    }
    if (rc) {
        return no_room(err);
    }
    return spec->runtime ? expand_runtime(&vars, spec->runtime, arena, err) : 0;
}

/* --- image --- */

int workspace_image_key(const Cordium__Workspace__Spec__Image *image,
                        char ret[WORKSPACE_IMAGE_KEY_SIZE], struct error *err)
{
    struct buf bytes;
    buf_init(&bytes, 1024 * 1024);
    int rc = codec_encode_wire(&image->base, &bytes, err);
    if (!rc) {
        static_assert((int)WORKSPACE_IMAGE_KEY_SIZE == (int)TOKEN_DIGEST_HEX_SIZE,
                      "one is the other");
        token_sha256_hex(buf_str(&bytes), ret);
    }
    buf_free(&bytes);
    return rc;
}

/* --- network --- */

static int parse_cidr(const char *text, struct executor_cidr *ret, struct error *err)
{
    char address[INET6_ADDRSTRLEN];
    const char *slash = strchr(text, '/');
    size_t n = slash ? (size_t)(slash - text) : 0;
    if (n == 0 || n >= sizeof address) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Network rule: '%s' is not ADDRESS/PREFIX-LENGTH", text);
    }
    memcpy(address, text, n);
    address[n] = '\0';
    char *end;
    unsigned long length = strtoul(slash + 1, &end, 10);
    ret->family = strchr(address, ':') ? 6 : 4;
    if (slash[1] < '0' || slash[1] > '9' || *end || length > (ret->family == 6 ? 128 : 32) ||
        inet_pton(ret->family == 6 ? AF_INET6 : AF_INET, address, ret->address) != 1) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "Network rule: '%s' is not ADDRESS/PREFIX-LENGTH", text);
    }
    ret->prefix_length = (uint8_t)length;
    return 0;
}

static int convert_rule(const Cordium__Workspace__Spec__Runtime__Network__Rule *rule,
                        struct arena *arena, struct executor_network_rule *ret, struct error *err)
{
    struct executor_cidr *cidrs = arena_calloc(arena, rule->n_cidrs, sizeof *cidrs);
    uint16_t *ports = arena_calloc(arena, rule->n_ports, sizeof *ports);
    if (!cidrs || !ports) {
        return no_room(err);
    }
    for (size_t i = 0; i < rule->n_cidrs; i++) {
        int rc = parse_cidr(rule->cidrs[i], &cidrs[i], err);
        if (rc) {
            return rc;
        }
    }
    for (size_t i = 0; i < rule->n_ports; i++) {
        ports[i] = (uint16_t)rule->ports[i];
    }
    ret->allow = rule->action == CORDIUM__WORKSPACE__SPEC__RUNTIME__NETWORK__RULE__ACTION__ALLOW;
    ret->cidrs = cidrs;
    ret->cidr_count = rule->n_cidrs;
    ret->ports = ports;
    ret->port_count = rule->n_ports;
    return 0;
}

int workspace_network(const Cordium__Workspace__Spec__Runtime__Network *network,
                      struct arena *arena, struct executor_network *ret, struct error *err)
{
    const Cordium__Workspace__Spec__Runtime__Network__Egress *egress =
        network ? network->egress : NULL;
    bool denies =
        egress && egress->default_action ==
                      CORDIUM__WORKSPACE__SPEC__RUNTIME__NETWORK__EGRESS__DEFAULT_ACTION__DENY;
    size_t count = egress ? egress->n_rules : 0;
    bool has_allow = false;
    struct executor_network_rule *rules = arena_calloc(arena, count, sizeof *rules);
    if (!rules) {
        return no_room(err);
    }
    for (size_t i = 0; i < count; i++) {
        int rc = convert_rule(egress->rules[i], arena, &rules[i], err);
        if (rc) {
            return rc;
        }
        has_allow = has_allow || rules[i].allow;
    }
    memset(ret, 0, sizeof *ret);
    if (denies && !has_allow) {
        ret->mode = EXECUTOR_NETWORK_NONE; /* nothing could pass: no interface at all */
        return 0;
    }
    ret->mode = EXECUTOR_NETWORK_RULES;
    ret->default_allow_public = !denies;
    ret->rules = rules;
    ret->rule_count = count;
    return 0;
}

/* --- limits --- */

static void cap(uint32_t *value, uint64_t max)
{
    if (max > 0 && *value > max) {
        *value = (uint32_t)max;
    }
}

void workspace_limit_cap(const struct executor_host_report *host, struct limit_values *values)
{
    if (host) {
        cap(&values->memory_megabytes, host->ceiling.memory_bytes >> 20);
        cap(&values->storage_megabytes, host->ceiling.disk_bytes >> 20);
        cap(&values->cpu_millicores, host->ceiling.cpu_millicores);
    }
}

/* --- capabilities --- */

/* Numbers of linux/capability.h. */
static const char *const CAPABILITY_NAMES[] = {
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
};

static uint64_t capability_mask(size_t count, char **names)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], "ALL") == 0) {
            return UINT64_MAX;
        }
        for (size_t k = 0; k < sizeof CAPABILITY_NAMES / sizeof CAPABILITY_NAMES[0]; k++) {
            if (strcmp(names[i], CAPABILITY_NAMES[k]) == 0) {
                mask |= UINT64_C(1) << k;
            }
        }
    }
    return mask;
}

uint64_t workspace_capabilities(const Cordium__Workspace__Spec__Runtime__Capabilities *cluster,
                                const Cordium__Workspace__Spec__Runtime__Capabilities *space,
                                const Cordium__Workspace__Spec__Runtime__Capabilities *spec)
{
    const Cordium__Workspace__Spec__Runtime__Capabilities *levels[] = {cluster, space, spec};
    uint64_t add = 0;
    uint64_t drop = 0;
    for (size_t i = 0; i < 3; i++) {
        if (levels[i]) {
            add |= capability_mask(levels[i]->n_add, levels[i]->add);
            drop |= capability_mask(levels[i]->n_drop, levels[i]->drop);
        }
    }
    return add & ~drop;
}
