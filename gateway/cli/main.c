/* cordium, also called octeliumctl: the command line client. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gateway/cli/cli.h"
#include "gateway/cli/commands.h"

static const struct command *const groups[] = {
    workspace_commands,   resource_commands, build_commands,       copy_commands,
    apply_commands,       policy_commands,   policy_test_commands, policy_server_commands,
    session_commands,     run_commands,      doctor_commands,      audit_commands,
    audit_proof_commands,
};

/* The summary ends where details for --help begin. */
static void print_command(FILE *to, const struct command *c)
{
    fprintf(to, "  %-18s %.*s\n", c->name, (int)strcspn(c->summary, "\v"), c->summary);
}

static void print_commands(FILE *to, const char *program)
{
    fprintf(to, "Usage: %s COMMAND [OPTION...]\n\nCommands:\n", program);
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (const struct command *c = groups[g]; c->name; c++) {
            print_command(to, c);
        }
    }
    fprintf(to,
            "\n%s COMMAND --help tells more. Settings come from options, CORDIUM_* and OCTELIUM_*\n"
            "variables, and ~/.config/cordium/config.yaml.\n",
            program);
}

/* A command's name may have two words: "policy check". `second` is NULL when there is none. */
static const struct command *find(const char *first, const char *second, int *ret_words)
{
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (const struct command *c = groups[g]; c->name; c++) {
            const char *space = strchr(c->name, ' ');
            size_t len = space ? (size_t)(space - c->name) : strlen(c->name);
            bool is_first = strlen(first) == len && strncmp(c->name, first, len) == 0;
            if (is_first && (!space || (second && strcmp(space + 1, second) == 0))) {
                *ret_words = space ? 2 : 1;
                return c;
            }
        }
    }
    return NULL;
}

/* The commands that begin with a word; false when there are none. */
static bool print_family(FILE *to, const char *program, const char *first)
{
    bool found = false;
    size_t len = strlen(first);
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (const struct command *c = groups[g]; c->name; c++) {
            if (strncmp(c->name, first, len) == 0 && c->name[len] == ' ') {
                if (!found) {
                    fprintf(to, "Usage: %s %s COMMAND [OPTION...]\n\nCommands:\n", program, first);
                }
                print_command(to, c);
                found = true;
            }
        }
    }
    return found;
}

/* No such command; a word that begins several is told with them. */
static int refuse(const char *program, const char *first, const char *second)
{
    bool is_help = second && (strcmp(second, "--help") == 0 || strcmp(second, "-h") == 0);
    if (print_family(is_help ? stdout : stderr, program, first)) {
        return is_help ? 0 : CLI_EXIT_USAGE;
    }
    fprintf(stderr, "%s: '%s' is no command; `%s --help` lists them\n", program, first, program);
    return CLI_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    const char *program = slash ? slash + 1 : argv[0];
    if (argc < 2) {
        print_commands(stderr, program);
        return CLI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0 ||
        strcmp(argv[1], "-h") == 0) {
        print_commands(stdout, program);
        return 0;
    }
    int words = 1;
    const struct command *command = find(argv[1], argc > 2 ? argv[2] : NULL, &words);
    if (!command) {
        return refuse(program, argv[1], argc > 2 ? argv[2] : NULL);
    }
    struct arguments args;
    arguments_parse(command, program, argc - words, argv + words, &args);
    return command->run(command, &args);
}
