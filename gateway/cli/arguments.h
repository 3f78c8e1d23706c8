#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Everything that can stand behind a command; each command names the options that it takes. */
enum { ARGUMENTS_LIST_MAX = 256 };

struct argument_list {
    const char *items[ARGUMENTS_LIST_MAX];
    size_t count;
};

/* What lines of the audit log must be: OPT_WHERE_* and its value, in the order given. */
struct argument_condition {
    int key;
    const char *value;
};

struct arguments {
    /* where and how to connect */
    const char *domain, *server, *ca_file, *home;
    /* shape of the output: table, json, yaml; NULL when not given */
    const char *output;
    const char *file, *display_name, *description, *space, *template_, *image, *dockerfile,
        *working_dir, *type, *email, *user, *role, *value;
    struct argument_list env, vars, policies, groups, tags;
    uint32_t cpu, memory, storage;
    uint32_t page, items_per_page;
    bool is_ephemeral, remove_after, as_root, no_stdin, is_recursive, is_dry_run, prune, detach,
        cancel, no_wait, timestamps, start, read_only, cordium_config, no_network, is_strict,
        update, show_all, is_online, is_in_force;
    const char *language, *into, *key;
    struct argument_list collect, sent_files;
    uint32_t timeout_seconds;
    const char *method, *session, *body, *test, *audit_id;
    uint32_t audit_lines;
    struct argument_condition where[ARGUMENTS_LIST_MAX];
    size_t where_count;
    uint32_t line_count, top;
    bool has_line_count, follow, oldest_first, every_line, with_key;
    struct argument_list by;
    const char *anchor;
    struct argument_list words; /* positional */
};

/* The options that commands pick from, by key. */
enum {
    OPT_DOMAIN = 0x100,
    OPT_SERVER,
    OPT_CA_FILE,
    OPT_HOMEDIR,
    OPT_DISPLAY_NAME,
    OPT_DESCRIPTION,
    OPT_SPACE,
    OPT_TEMPLATE,
    OPT_IMAGE,
    OPT_DOCKERFILE,
    OPT_TYPE,
    OPT_EMAIL,
    OPT_USER,
    OPT_ROLE,
    OPT_VALUE,
    OPT_VAR,
    OPT_POLICY,
    OPT_GROUP,
    OPT_TAG,
    OPT_CPU,
    OPT_MEMORY,
    OPT_STORAGE,
    OPT_PAGE,
    OPT_ITEMS_PER_PAGE,
    OPT_EPHEMERAL,
    OPT_RM,
    OPT_ROOT,
    OPT_NO_STDIN,
    OPT_DRY_RUN,
    OPT_PRUNE,
    OPT_DETACH,
    OPT_CANCEL,
    OPT_NO_WAIT,
    OPT_START,
    OPT_READ_ONLY,
    OPT_NO_NETWORK,
    OPT_CORDIUM,
    OPT_STRICT,
    OPT_UPDATE,
    OPT_ALL,
    OPT_METHOD,
    OPT_SESSION,
    OPT_BODY,
    OPT_TEST,
    OPT_AUDIT_ID,
    OPT_AUDIT_LINES,
    OPT_LANGUAGE,
    OPT_INTO,
    OPT_KEY,
    OPT_COLLECT,
    OPT_SEND,
    OPT_TIMEOUT,
    OPT_ONLINE,
    OPT_IN_FORCE,
    OPT_BY,
    OPT_TOP,
    OPT_ANCHOR,
    OPT_WITH_KEY,
    OPT_OLDEST_FIRST,
    OPT_EVERY_LINE,
    OPT_WHERE_FIRST = 0x200,
    OPT_WHERE_USER = OPT_WHERE_FIRST,
    OPT_WHERE_SESSION,
    OPT_WHERE_SPACE,
    OPT_WHERE_TEMPLATE,
    OPT_WHERE_WORKSPACE,
    OPT_WHERE_METHOD,
    OPT_WHERE_DECISION,
    OPT_WHERE_REASON,
    OPT_WHERE_POLICY,
    OPT_WHERE_RULE,
    OPT_WHERE_OUTCOME,
    OPT_WHERE_CODE,
    OPT_WHERE_KIND,
    OPT_WHERE_EVENT,
    OPT_WHERE_RUN,
    OPT_WHERE_REQUEST,
    OPT_WHERE_PEER,
    OPT_WHERE_IN_WORKSPACE,
    OPT_WHERE_SINCE,
    OPT_WHERE_UNTIL,
    OPT_WHERE_LAST = OPT_WHERE_UNTIL,
};

/* Entries for struct argp_option tables. */
#define ARG_OUTPUT                                                                                 \
    {                                                                                              \
        "output", 'o', "FORMAT", 0, "table, json or yaml", 0                                       \
    }
#define ARG_FILE(text)                                                                             \
    {                                                                                              \
        "file", 'f', "FILE", 0, text, 0                                                            \
    }
#define ARG_ENV                                                                                    \
    {                                                                                              \
        "env", 'e', "NAME=VALUE", 0, "set an environment variable (may be repeated)", 0            \
    }
/* What lines of the audit log must be; see audit_filter.c. */
/* clang-format off */
#define ARG_WHERE                                                                                  \
    {NULL, 0, NULL, 0, "Which lines (of several values of one option, one):", 1},                  \
    {"user", OPT_WHERE_USER, "NAME|UID", 0, "of this User", 1},                                    \
    {"session", OPT_WHERE_SESSION, "NAME|UID", 0, "of this Session", 1},                           \
    {"space", OPT_WHERE_SPACE, "NAME|UID", 0, "about this Space or what is in it", 1},             \
    {"template", OPT_WHERE_TEMPLATE, "NAME|UID", 0, "about this Template", 1},                     \
    {"workspace", OPT_WHERE_WORKSPACE, "NAME|UID", 0, "about this Workspace", 1},                  \
    {"method", OPT_WHERE_METHOD, "METHOD", 0, "Exec, WorkspaceService/Exec, /oauth2/token", 1},    \
    {"decision", OPT_WHERE_DECISION, "DECISION", 0, "allowed or denied", 1},                       \
    {"reason", OPT_WHERE_REASON, "REASON", 0, "POLICY_MATCH, UNAUTHENTICATED ...", 1},             \
    {"policy", OPT_WHERE_POLICY, "NAME|UID", 0, "decided by this Policy", 1},                      \
    {"rule", OPT_WHERE_RULE, "NAME", 0, "decided by the rule of this name, or #2", 1},             \
    {"outcome", OPT_WHERE_OUTCOME, "OUTCOME", 0, "of a program: exited, oom_killed ...", 1},       \
    {"code", OPT_WHERE_CODE, "CODE", 0, "of the answer: OK, NOT_FOUND ...", 1},                    \
    {"kind", OPT_WHERE_KIND, "KIND", 0, "AccessLog, DaemonLog, RunLog, AuditCheckpoint ...", 1},   \
    {"event", OPT_WHERE_EVENT, "EVENT", 0, "DECISION, END, RUN_END, START ...", 1},                \
    {"run", OPT_WHERE_RUN, "ID", 0, "of this Run", 1},                                             \
    {"request", OPT_WHERE_REQUEST, "ID", 0, "of this request", 1},                                 \
    {"peer", OPT_WHERE_PEER, "ADDRESS", 0, "from this address, of one port or any", 1},            \
    {"since", OPT_WHERE_SINCE, "TIME", 0, "2h (ago), yesterday, 2026-11-30T10:00 (UTC)", 1},       \
    {"until", OPT_WHERE_UNTIL, "TIME", 0, "before that time", 1},                                  \
    {"in-workspace", OPT_WHERE_IN_WORKSPACE, "yes|no", OPTION_ARG_OPTIONAL,                        \
     "from inside of a workspace, or not", 1}
/* clang-format on */

#define ARG_END                                                                                    \
    {                                                                                              \
        NULL, 0, NULL, 0, NULL, 0                                                                  \
    }

struct command {
    const char *name;    /* "exec", or "create space" */
    const char *summary; /* one line for the list of commands */
    const char *args;    /* "WORKSPACE -- COMMAND..." */
    const struct argp_option *options;
    /* After this many words the rest is taken as it is; 0 = never. */
    size_t plain_after;
    size_t words_min, words_max;
    /* Exit code of the program. */
    int (*run)(const struct command *self, const struct arguments *args);
};

/* Parses what follows the command's name; --help and errors end the program (exit code 64). */
void arguments_parse(const struct command *command, const char *program, int argc, char **argv,
                     struct arguments *ret);

#endif
