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
