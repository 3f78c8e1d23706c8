#include "gateway/services/oneshot_spec.h"

#include <stdio.h>
#include <string.h>

#include "gateway/identity/token.h"
#include "gateway/services/exec_service.h"
#include "gateway/services/limits.h"
#include "gateway/services/oneshot_files.h"
#include "gateway/services/oneshot_path.h"
#include "gateway/services/workspace_env.h"
#include "gateway/services/workspace_spec.h"
#include "policy/base/bytes.h"

/* Interpreters are looked for in the image's PATH. */
static const struct language {
    const char *name;
    const char *interpreter;
    const char *file;
} languages[] = {
    {"python", "python3", "main.py"}, {"python3", "python3", "main.py"},
    {"sh", "sh", "main.sh"},          {"bash", "bash", "main.sh"},
    {"node", "node", "main.js"},      {"javascript", "node", "main.js"},
    {"ruby", "ruby", "main.rb"},      {"perl", "perl", "main.pl"},
    {"php", "php", "main.php"},       {"lua", "lua", "main.lua"},
};

enum {
    LANGUAGE_COUNT = sizeof languages / sizeof languages[0],
    PIDS_MAX = 1024, /* enough for a build with many jobs, too few to hurt the host */
    TEXT_MAX_BYTES = 2 * 1024 * 1024,
    INODES_PER_MEGABYTE = 64, /* one for 16 KiB, as ext4 has them */
};

/* --- the program --- */

static int no_room(struct error *err)
{
    return error_set(err, STATUS_RESOURCE_EXHAUSTED, "The run's request is too large");
}

static const struct language *find_language(const char *name)
{
    for (size_t i = 0; i < LANGUAGE_COUNT; i++) {
        if (strcmp(languages[i].name, name) == 0) {
            return &languages[i];
        }
    }
    return NULL;
}

static int unknown_language(const char *name, struct error *err)
{
    char all[256] = "";
    size_t at = 0;
    for (size_t i = 0; i < LANGUAGE_COUNT; i++) {
        int n = snprintf(all + at, sizeof all - at, "%s%s", i ? ", " : "", languages[i].name);
        at += n > 0 && (size_t)n < sizeof all - at ? (size_t)n : 0;
    }
    return error_set(err, STATUS_INVALID_ARGUMENT,
                     "language '%.40s' is not known; use one of %s, or send the code as a file and "
                     "name the interpreter in argv",
                     name, all);
}

static bool needs_quotes(const char *word)
{
    static const char PLAIN[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
    return !word[0] || word[strspn(word, PLAIN)] != '\0';
}

/* The words as one would write them for a shell: what policies and the audit log see. */
static int quote_words(size_t count, char *const *words, struct arena *arena, struct str *ret)
{
    struct buf text;
    buf_init(&text, TEXT_MAX_BYTES * 2);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            buf_add_u8(&text, ' ');
        }
        if (!needs_quotes(words[i])) {
            buf_add_cstr(&text, words[i]);
            continue;
        }
        buf_add_u8(&text, '\'');
        for (const char *c = words[i]; *c; c++) {
            if (*c == '\'') {
                buf_add_cstr(&text, "'\\''");
            } else {
                buf_add_u8(&text, (uint8_t)*c);
            }
        }
        buf_add_u8(&text, '\'');
    }
    const char *copy = text.failed ? NULL : arena_strndup(arena, (const char *)text.ptr, text.len);
    *ret = copy ? str_make(copy, text.len) : STR_NONE;
    buf_free(&text);
    return copy ? 0 : -STATUS_RESOURCE_EXHAUSTED;
}

static int plan_code(const Ext__RunRequest *request, struct arena *arena, struct oneshot_plan *plan,
                     struct error *err)
{
    const struct language *language = find_language(request->language);
    if (!language) {
        return request->language[0]
                   ? unknown_language(request->language, err)
                   : error_set(err, STATUS_INVALID_ARGUMENT,
                               "language is missing; code needs one, such as \"python\"");
    }
    const char **argv = arena_calloc(arena, request->n_argv + 2, sizeof *argv);
    if (!argv) {
        return no_room(err);
    }
    argv[0] = language->interpreter;
    argv[1] = arena_printf(arena, WORKSPACE_DIR "/%s", language->file);
    for (size_t i = 0; i < request->n_argv; i++) {
        argv[i + 2] = request->argv[i];
    }
    for (size_t i = 0; i < request->n_files; i++) {
        if (strcmp(request->files[i]->path, language->file) == 0) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "files[%zu].path '%s' is where the code goes; give that file another "
                             "name",
                             i, language->file);
        }
    }
    plan->argv = argv;
    plan->argc = request->n_argv + 2;
    plan->program = language->name;
    plan->code_file = language->file;
    plan->text = request->code_bytes.len > 0
                     ? str_make(request->code_bytes.data, request->code_bytes.len)
                     : str_from(request->code);
    return argv[1] ? 0 : no_room(err);
}

static int plan_words(const Ext__RunRequest *request, struct arena *arena,
                      struct oneshot_plan *plan, struct error *err)
{
    if (!request->argv[0][0]) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "argv[0] is empty; name a program");
    }
    plan->argv = (const char *const *)request->argv;
    plan->argc = request->n_argv;
    plan->program = request->argv[0];
    return quote_words(request->n_argv, request->argv, arena, &plan->text) ? no_room(err) : 0;
}

static int plan_what(const Ext__RunRequest *request, struct arena *arena, struct oneshot_plan *plan,
                     struct error *err)
{
    bool has_code = request->code[0] || request->code_bytes.len > 0;
    if (request->code[0] && request->code_bytes.len > 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "code and codeBytes are both set; send one of them");
    }
    if (request->command[0] && (has_code || request->n_argv > 0)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "command is set beside argv or code; send one of them");
    }
    if (has_code) {
        return plan_code(request, arena, plan, err);
    }
    if (request->language[0]) {
        return error_set(err, STATUS_INVALID_ARGUMENT, "code is empty; language '%.40s' needs it",
                         request->language);
    }
    if (request->n_argv > 0) {
        return plan_words(request, arena, plan, err);
    }
    if (!request->command[0]) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "there is nothing to run: set argv, command, or code and language");
    }
    if (strlen(request->command) > EXEC_COMMAND_MAX_BYTES) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "command has %zu bytes; at most %d are allowed. Send it as code with "
                         "language \"sh\"",
                         strlen(request->command), EXEC_COMMAND_MAX_BYTES);
    }
    plan->command = request->command;
    plan->program = "shell command";
    plan->text = str_from(request->command);
    return 0;
}

/* --- the rest of the request --- */

static bool path_is_inside(const char *path)
{
    return strlen(path) <= ONESHOT_PATH_MAX && oneshot_path_is_below(path);
}

static int given_twice(const Ext__RunRequest *request, size_t i, struct error *err)
{
    for (size_t k = 0; k < i; k++) {
        if (strcmp(request->files[k]->path, request->files[i]->path) == 0) {
            return error_set(
                err, STATUS_INVALID_ARGUMENT,
                "files[%zu].path '%.100s' is that of files[%zu], too; send one of them", i,
                request->files[i]->path, k);
        }
    }
    return 0;
}

static int check_files(const Ext__RunRequest *request, struct error *err)
{
    if (request->n_files > ONESHOT_FILES_MAX || request->n_collect > ONESHOT_PATTERNS_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "files has %zu entries and collect %zu; at most %d and %d are allowed. "
                         "Pack many files into one archive",
                         request->n_files, request->n_collect, ONESHOT_FILES_MAX,
                         ONESHOT_PATTERNS_MAX);
    }
    for (size_t i = 0; i < request->n_files; i++) {
        if (!path_is_inside(request->files[i]->path)) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "files[%zu].path '%.100s' must be relative to /workspace, without "
                             "'..', of at most %d bytes",
                             i, request->files[i]->path, ONESHOT_PATH_MAX);
        }
        if (request->files[i]->text[0] && request->files[i]->data.len > 0) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "files[%zu] has text and data; send one of them", i);
        }
        if (given_twice(request, i, err)) {
            return -err->status;
        }
    }
    for (size_t i = 0; i < request->n_collect; i++) {
        if (!path_is_inside(request->collect[i])) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "collect[%zu] '%.100s' must be a pattern relative to /workspace, "
                             "without '..', of at most %d bytes",
                             i, request->collect[i], ONESHOT_PATH_MAX);
        }
    }
    return 0;
}

static int check_env(const Ext__RunRequest *request, struct error *err)
{
    if (request->n_env > ONESHOT_ENV_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "env has %zu entries; at most %d are allowed", request->n_env,
                         ONESHOT_ENV_MAX);
    }
    for (size_t i = 0; i < request->n_env; i++) {
        const char *key = request->env[i]->key;
        size_t n = strlen(key);
        bool is_bad = n == 0 || n > EXEC_ENV_NAME_MAX || strchr(key, '=');
        for (size_t k = 0; k < n && !is_bad; k++) {
            is_bad = key[k] <= ' ' || key[k] == 0x7f;
        }
        if (is_bad) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "env: '%.80s' must be 1 to %d visible ASCII characters without '='",
                             key, EXEC_ENV_NAME_MAX);
        }
        if (strlen(request->env[i]->value) + n + 2 > EXEC_ENV_VALUE_MAX_BYTES) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "env: '%.80s' is longer than the kernel takes (128 KiB); send it by "
                             "stdin",
                             key);
        }
    }
    return 0;
}

static int check_words(const Ext__RunRequest *request, struct error *err)
{
    if (request->n_argv > ONESHOT_ARGS_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "argv has %zu words; at most %d are allowed. Send them by stdin",
                         request->n_argv, ONESHOT_ARGS_MAX);
    }
    for (size_t i = 0; i < request->n_argv; i++) {
        if (strlen(request->argv[i]) >= EXEC_ENV_VALUE_MAX_BYTES) {
            return error_set(err, STATUS_INVALID_ARGUMENT,
                             "argv[%zu] is longer than the kernel takes (128 KiB); send it by "
                             "stdin or as a file",
                             i);
        }
    }
    const char *dir = request->working_dir;
    if (dir[0] && (dir[0] != '/' || strlen(dir) > EXEC_WORKING_DIR_MAX)) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "workingDir '%.100s' must be an absolute path of at most %d bytes", dir,
                         EXEC_WORKING_DIR_MAX);
    }
    if (request->stdin[0] && request->stdin_bytes.len > 0) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "stdin and stdinBytes are both set; send one of them");
    }
    if (strlen(request->idempotency_key) > ONESHOT_KEY_MAX) {
        return error_set(err, STATUS_INVALID_ARGUMENT,
                         "idempotencyKey has %zu bytes; at most %d are allowed",
                         strlen(request->idempotency_key), ONESHOT_KEY_MAX);
    }
    return 0;
}

int oneshot_plan_program(const Ext__RunRequest *request, struct arena *arena,
                         struct oneshot_plan *plan, struct error *err)
{
    *plan = (struct oneshot_plan){0};
    int rc = check_words(request, err);
    rc = rc ? rc : check_env(request, err);
    rc = rc ? rc : check_files(request, err);
    rc = rc ? rc : plan_what(request, arena, plan, err);
    if (!rc) {
        token_sha256(plan->text, plan->text_sha256);
    }
    return rc;
}

/* --- limits --- */

struct three {
    struct limit_values values;
    struct limit_values maximum;
    struct limit_values by_caller; /* what was asked; 0: nothing */
};

static Ext__RunResult__Source source_of(const struct oneshot_surroundings *around, size_t offset,
                                        uint32_t asked, uint32_t value)
{
    const struct limit_sources s = {
        .template_ =
            around->template_ && around->template_->spec ? around->template_->spec->limit : NULL,
        .space = around->space,
        .cluster = around->cluster,
    };
    return asked > 0 ? EXT__RUN_RESULT__SOURCE__CALLER : limit_source_of(&s, offset, value);
}

static int over(const struct oneshot_limit *l, uint64_t asked, struct error *err)
{
    return error_set(err, STATUS_INVALID_ARGUMENT,
                     "limits.%s is %llu, over the maximum of %llu: ask for less, or have the "
                     "maximum raised",
                     l->name, (unsigned long long)asked, (unsigned long long)l->maximum);
}

/* One that only this service knows. */
struct own_limit {
    enum oneshot_limit_name which;
    const char *name;
    uint32_t asked;
    uint32_t otherwise;
    uint32_t maximum;
};

static int set_own(struct oneshot_limit *l, const struct own_limit *own, struct error *err)
{
    *l = (struct oneshot_limit){
        .name = own->name,
        .value = own->asked                      ? own->asked
                 : own->otherwise < own->maximum ? own->otherwise
                                                 : own->maximum,
        .maximum = own->maximum,
        .set_by = own->asked ? EXT__RUN_RESULT__SOURCE__CALLER : EXT__RUN_RESULT__SOURCE__DEFAULT,
    };
    return l->value > l->maximum ? over(l, l->value, err) : 0;
}

static int plan_own(const Ext__RunLimits *asked, const struct oneshot_surroundings *around,
                    struct oneshot_plan *plan, struct error *err)
{
    const uint32_t host_pids = around->host ? around->host->ceiling.pids : 0;
    const uint32_t pids_max = host_pids > 8 && host_pids - 8 < PIDS_MAX ? host_pids - 8 : PIDS_MAX;
    const uint32_t output = around->output_bytes_max;
    const struct own_limit all[] = {
        {ONESHOT_WALL_MS, "wallMs", asked ? asked->wall_ms : 0, 60 * 1000, 3600 * 1000},
        {ONESHOT_GRACE_MS, "graceMs", asked ? asked->grace_ms : 0, 1000, 30 * 1000},
        {ONESHOT_CPU_MS, "cpuMs", asked ? asked->cpu_ms : 0, 0, 24 * 3600 * 1000},
        {ONESHOT_PIDS, "pids", asked ? asked->pids : 0, 256, pids_max},
        {ONESHOT_STDOUT_BYTES, "stdoutBytes", asked ? asked->stdout_bytes : 0, 65536, output},
        {ONESHOT_STDERR_BYTES, "stderrBytes", asked ? asked->stderr_bytes : 0, 65536, output},
        {ONESHOT_FILES_BYTES, "filesBytes", asked ? asked->files_bytes : 0, 2 << 20, 6 << 20},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof all / sizeof all[0]; i++) {
        rc = set_own(&plan->limits[all[i].which], &all[i], err);
    }
    return rc;
}

/* Those whose default or maximum follows from another one. */
static int plan_derived(const Ext__RunLimits *asked, const struct oneshot_surroundings *around,
                        struct oneshot_plan *plan, struct error *err)
{
    const struct executor_host_report *host = around->host;
    const uint32_t memory = (uint32_t)plan->limits[ONESHOT_MEMORY_MEGABYTES].value;
    const uint64_t by_size = plan->limits[ONESHOT_DISK_MEGABYTES].value * INODES_PER_MEGABYTE;
    const bool are_counted = host && host->quota_backend == EXECUTOR_QUOTA_PROJECT;
    const uint64_t most = are_counted && host->ceiling.inodes > ONESHOT_EXTRA_INODES
                              ? host->ceiling.inodes - ONESHOT_EXTRA_INODES
                              : 0;
    const uint32_t inodes_max = most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
    const struct own_limit shm = {ONESHOT_SHM_MEGABYTES, "shmMegabytes",
                                  asked ? asked->shm_megabytes : 0, memory > 1 ? memory / 2 : 1,
                                  memory};
    const struct own_limit inodes = {ONESHOT_INODES, "inodes", asked ? asked->inodes : 0,
                                     (uint32_t)(by_size < inodes_max ? by_size : inodes_max),
                                     inodes_max};
    if (inodes.asked && !are_counted) {
        return error_set(err, STATUS_FAILED_PRECONDITION,
                         "limits.inodes cannot be put in force here: the executor limits disk in a "
                         "way that counts no inodes. Leave it out: diskMegabytes bounds them, too; "
                         "or have the executor's storages on a file system with project quota");
    }
    int rc = set_own(&plan->limits[ONESHOT_SHM_MEGABYTES], &shm, err);
    return rc ? rc : set_own(&plan->limits[ONESHOT_INODES], &inodes, err);
}

/* CPU, memory and disk follow the rules of workspaces. */
static int plan_shared(const struct oneshot_surroundings *around, const struct three *t,
                       struct oneshot_plan *plan, struct error *err)
{
    const struct {
        enum oneshot_limit_name which;
        const char *name;
        size_t offset;
    } all[] = {
        {ONESHOT_CPU_MILLICORES, "cpuMillicores", offsetof(struct limit_values, cpu_millicores)},
        {ONESHOT_MEMORY_MEGABYTES, "memoryMegabytes",
         offsetof(struct limit_values, memory_megabytes)},
        {ONESHOT_DISK_MEGABYTES, "diskMegabytes", offsetof(struct limit_values, storage_megabytes)},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        uint32_t value;
        uint32_t maximum;
        uint32_t asked;
        memcpy(&value, (const char *)&t->values + all[i].offset, sizeof value);
        memcpy(&maximum, (const char *)&t->maximum + all[i].offset, sizeof maximum);
        memcpy(&asked, (const char *)&t->by_caller + all[i].offset, sizeof asked);
        struct oneshot_limit *l = &plan->limits[all[i].which];
        *l = (struct oneshot_limit){
            .name = all[i].name,
            .value = value,
            .maximum = maximum,
            .set_by = source_of(around, all[i].offset, asked, value),
        };
        if (asked > maximum) {
            return over(l, asked, err);
        }
    }
    return 0;
}

int oneshot_plan_limits(const Ext__RunLimits *asked, const struct oneshot_surroundings *around,
                        struct oneshot_plan *plan, struct error *err)
{
    struct arena arena;
    struct three t = {0};
    if (asked) {
        t.by_caller = (struct limit_values){asked->cpu_millicores, asked->memory_megabytes,
                                            asked->disk_megabytes};
    }
    arena_init(&arena, 16 * 1024);
    struct limit_sources s = {
        .workspace = limit_to_message(t.by_caller, &arena),
        .template_ =
            around->template_ && around->template_->spec ? around->template_->spec->limit : NULL,
        .space = around->space,
        .cluster = around->cluster,
    };
    int rc = s.workspace ? 0 : no_room(err);
    if (!rc) {
        t.values = limit_effective(&s);
        workspace_limit_cap(around->host, &t.values);
        s.workspace =
            limit_to_message((struct limit_values){UINT32_MAX, UINT32_MAX, UINT32_MAX}, &arena);
        rc = s.workspace ? 0 : no_room(err);
    }
    if (!rc) {
        t.maximum = limit_effective(&s);
        workspace_limit_cap(around->host, &t.maximum);
        rc = plan_own(asked, around, plan, err);
    }
    rc = rc ? rc : plan_shared(around, &t, plan, err);
    rc = rc ? rc : plan_derived(asked, around, plan, err);
    arena_free(&arena);
    return rc;
}

Cordium__Workspace__Spec__Limit *oneshot_plan_limit_message(const struct oneshot_plan *plan,
                                                            struct arena *arena)
{
    return limit_to_message(
        (struct limit_values){
            (uint32_t)plan->limits[ONESHOT_CPU_MILLICORES].value,
            (uint32_t)plan->limits[ONESHOT_MEMORY_MEGABYTES].value,
            (uint32_t)plan->limits[ONESHOT_DISK_MEGABYTES].value,
        },
        arena);
}
