/* cordium, also called octeliumctl: the command line client. */
#include <stdio.h>
#include <string.h>

#include "gateway/cli/cli.h"
#include "gateway/cli/commands.h"

static const struct command *const groups[] = {
    workspace_commands, resource_commands, build_commands,
    copy_commands,      apply_commands,    session_commands,
};

static void print_commands(FILE *to, const char *program)
{
    fprintf(to, "Usage: %s COMMAND [OPTION...]\n\nCommands:\n", program);
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (const struct command *c = groups[g]; c->name; c++) {
            fprintf(to, "  %-10s %s\n", c->name, c->summary);
        }
    }
    fprintf(to,
            "\n%s COMMAND --help tells more. Settings come from options, CORDIUM_* and OCTELIUM_*\n"
            "variables, and ~/.config/cordium/config.yaml.\n",
            program);
}

static const struct command *find(const char *word)
{
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (const struct command *c = groups[g]; c->name; c++) {
            if (strcmp(c->name, word) == 0) {
                return c;
            }
        }
    }
    return NULL;
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
    const struct command *command = find(argv[1]);
    if (!command) {
        fprintf(stderr, "%s: '%s' is no command; `%s --help` lists them\n", program, argv[1],
                program);
        return CLI_EXIT_USAGE;
    }
    struct arguments args;
    arguments_parse(command, program, argc - 1, argv + 1, &args);
    return command->run(command, &args);
}
