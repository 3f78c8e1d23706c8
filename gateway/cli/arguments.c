#include "gateway/cli/arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 64, NUMBER_MAX = 100000000 };

struct parse {
    const struct command *command;
    struct arguments *args;
};

static const struct argp_option connection_options[] = {
    {NULL, 0, NULL, 0, "Connection:", -2},
    {"domain", OPT_DOMAIN, "NAME", 0, "domain of the cluster (CORDIUM_DOMAIN)", -2},
    {"server", OPT_SERVER, "HOST:PORT", 0, "address to connect to (CORDIUM_SERVER)", -2},
    {"ca-file", OPT_CA_FILE, "FILE", 0, "CA certificates in PEM (CORDIUM_CA_FILE)", -2},
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, -2},
    {"homedir", OPT_HOMEDIR, "DIR", 0, "where sessions are kept (OCTELIUM_HOME)", -2},
    ARG_END,
};

static void add_to_list(struct argument_list *list, const char *item, struct argp_state *state)
{
    if (list->count == ARGUMENTS_LIST_MAX) {
        argp_error(state, "more than %d values", ARGUMENTS_LIST_MAX);
    }
    list->items[list->count++] = item;
}

static uint32_t parse_number(const char *text, struct argp_state *state)
{
    char *end = NULL;
    errno = 0;
    unsigned long v = strtoul(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || v > NUMBER_MAX) {
        argp_error(state, "'%s' is not a whole number from 0 to %d", text, NUMBER_MAX);
    }
    return (uint32_t)v;
}

/* Options with a text; false when the key is another. */
static bool set_text(struct arguments *a, int key, const char *text)
{
    const struct {
        int key;
        const char **to;
    } texts[] = {
        {OPT_DOMAIN, &a->domain},
        {OPT_SERVER, &a->server},
        {OPT_CA_FILE, &a->ca_file},
        {OPT_HOMEDIR, &a->home},
        {'o', &a->output},
        {'f', &a->file},
        {'w', &a->working_dir},
        {OPT_DISPLAY_NAME, &a->display_name},
        {OPT_DESCRIPTION, &a->description},
        {OPT_SPACE, &a->space},
        {OPT_TEMPLATE, &a->template_},
        {OPT_IMAGE, &a->image},
        {OPT_DOCKERFILE, &a->dockerfile},
        {OPT_TYPE, &a->type},
        {OPT_EMAIL, &a->email},
        {OPT_USER, &a->user},
        {OPT_ROLE, &a->role},
        {OPT_VALUE, &a->value},
        {OPT_METHOD, &a->method},
        {OPT_SESSION, &a->session},
        {OPT_BODY, &a->body},
        {OPT_TEST, &a->test},
        {OPT_AUDIT_ID, &a->audit_id},
        {OPT_LANGUAGE, &a->language},
        {OPT_INTO, &a->into},
        {OPT_KEY, &a->key},
        {OPT_ANCHOR, &a->anchor},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i].key == key) {
            *texts[i].to = text;
            return true;
        }
    }
    return false;
}

static bool set_switch(struct arguments *a, int key)
{
    const struct {
        int key;
        bool *to;
    } switches[] = {
        {OPT_EPHEMERAL, &a->is_ephemeral},
        {OPT_RM, &a->remove_after},
        {OPT_ROOT, &a->as_root},
        {OPT_NO_STDIN, &a->no_stdin},
        {'r', &a->is_recursive},
        {OPT_DRY_RUN, &a->is_dry_run},
        {OPT_PRUNE, &a->prune},
        {OPT_DETACH, &a->detach},
        {OPT_CANCEL, &a->cancel},
        {OPT_NO_WAIT, &a->no_wait},
        {'t', &a->timestamps},
        {OPT_START, &a->start},
        {OPT_READ_ONLY, &a->read_only},
        {OPT_NO_NETWORK, &a->no_network},
        {OPT_CORDIUM, &a->cordium_config},
        {OPT_STRICT, &a->is_strict},
        {OPT_UPDATE, &a->update},
        {OPT_ALL, &a->show_all},
        {OPT_ONLINE, &a->is_online},
        {OPT_IN_FORCE, &a->is_in_force},
        {OPT_WITH_KEY, &a->with_key},
        {OPT_OLDEST_FIRST, &a->oldest_first},
        {OPT_EVERY_LINE, &a->every_line},
    };
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        if (switches[i].key == key) {
            *switches[i].to = true;
            return true;
        }
    }
    return false;
}

static bool set_list_or_number(struct arguments *a, int key, const char *text,
                               struct argp_state *state)
{
    struct argument_list *list = key == 'e'           ? &a->env
                                 : key == OPT_VAR     ? &a->vars
                                 : key == OPT_POLICY  ? &a->policies
                                 : key == OPT_GROUP   ? &a->groups
                                 : key == OPT_TAG     ? &a->tags
                                 : key == OPT_COLLECT ? &a->collect
                                 : key == OPT_SEND    ? &a->sent_files
                                 : key == OPT_BY      ? &a->by
                                                      : NULL;
    if (list) {
        add_to_list(list, text, state);
        return true;
    }
    uint32_t *number = key == OPT_CPU              ? &a->cpu
                       : key == OPT_MEMORY         ? &a->memory
                       : key == OPT_STORAGE        ? &a->storage
                       : key == OPT_PAGE           ? &a->page
                       : key == OPT_ITEMS_PER_PAGE ? &a->items_per_page
                       : key == OPT_AUDIT_LINES    ? &a->audit_lines
                       : key == OPT_TIMEOUT        ? &a->timeout_seconds
                       : key == 'n'                ? &a->line_count
                       : key == OPT_TOP            ? &a->top
                                                   : NULL;
    if (number) {
        *number = parse_number(text, state);
        a->has_line_count = a->has_line_count || key == 'n';
        if (key == OPT_TOP && *number == 0) {
            argp_error(state, "--top 0: a table has a row at least");
        }
    }
    return number != NULL;
}

static void take_word(struct parse *p, const char *word, struct argp_state *state)
{
    struct arguments *a = p->args;
    if (a->words.count == p->command->words_max) {
        argp_error(state, "unexpected '%s'", word);
    }
    add_to_list(&a->words, word, state);
    if (p->command->plain_after && a->words.count > p->command->plain_after) {
        while (state->next < state->argc) {
            add_to_list(&a->words, state->argv[state->next++], state);
        }
    }
}

static void add_condition(struct arguments *a, int key, const char *value, struct argp_state *state)
{
    if (a->where_count == ARGUMENTS_LIST_MAX) {
        argp_error(state, "more than %d conditions", ARGUMENTS_LIST_MAX);
    }
    a->where[a->where_count++] = (struct argument_condition){key, value};
}

static error_t parse_one(int key, char *text, struct argp_state *state)
{
    struct parse *p = state->input;
    if (key == ARGP_KEY_INIT) {
        if (state->child_inputs) {
            state->child_inputs[0] = p; /* the connection options fill the same arguments */
        }
        return 0;
    }
    if (key == 'h') {
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        return 0;
    }
    if (key == ARGP_KEY_ARG) {
        take_word(p, text, state);
        return 0;
    }
    if (key == ARGP_KEY_END) {
        if (p->args->words.count < p->command->words_min) {
            argp_error(state, "expected %s", p->command->args);
        }
        return 0;
    }
    if (key >= OPT_WHERE_FIRST && key <= OPT_WHERE_LAST) {
        add_condition(p->args, key, text, state);
        return 0;
    }
    if (key == 'f' && !text) { /* of `audit tail`: without a file */
        p->args->follow = true;
        return 0;
    }
    if (set_text(p->args, key, text) || set_switch(p->args, key) ||
        set_list_or_number(p->args, key, text, state)) {
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

/* Forms of output besides table, json and yaml. Programs and CI services read findings about
 * policies in two more forms; lines of the audit log are JSON already. */
static const struct {
    const char *command;
    const char *formats[5];
} own_formats[] = {
    {"policy check", {"text", "json", "sarif"}},
    {"policy test", {"text", "json", "yaml"}},
    {"doctor", {"text", "json", "yaml"}},
    {"audit list", {"table", "jsonl", "json", "yaml"}},
    {"audit tail", {"table", "jsonl", "json", "yaml"}},
    {"audit show", {"text", "jsonl", "json", "yaml"}},
    {"audit verify", {"text", "json", "yaml"}},
};

static void check_output(const struct command *command, const struct arguments *a,
                         const char *program)
{
    static const char *const common[5] = {"table", "json", "yaml"};
    const char *const *formats = common;
    for (size_t i = 0; i < sizeof own_formats / sizeof *own_formats; i++) {
        bool is_it = strcmp(command->name, own_formats[i].command) == 0;
        formats = is_it ? own_formats[i].formats : formats;
    }
    for (size_t i = 0; a->output && formats[i]; i++) {
        if (strcmp(a->output, formats[i]) == 0) {
            return;
        }
    }
    if (!a->output) {
        return;
    }
    fprintf(stderr, "%s: output format '%s' is unknown; use %s", program, a->output, formats[0]);
    for (size_t i = 1; formats[i]; i++) {
        fprintf(stderr, "%s%s", formats[i + 1] ? ", " : " or ", formats[i]);
    }
    fputc('\n', stderr);
    exit(EXIT_USAGE);
}

void arguments_parse(const struct command *command, const char *program, int argc, char **argv,
                     struct arguments *ret)
{
    char name[128];
    (void)snprintf(name, sizeof name, "%s %s", program, command->name);
    argv[0] = name;
    *ret = (struct arguments){0};
    struct parse p = {command, ret};
    const struct argp connection = {.options = connection_options, .parser = parse_one};
    const struct argp_child children[] = {{&connection, 0, NULL, 0}, {0}};
    const struct argp own = {
        .options = command->options,
        .parser = parse_one,
        .args_doc = command->args,
        .doc = command->summary,
        .children = children,
    };
    argp_err_exit_status = EXIT_USAGE;
    unsigned flags = command->plain_after ? ARGP_IN_ORDER : 0;
    (void)argp_parse(&own, argc, argv, flags, NULL, &p);
    check_output(command, ret, program);
}
