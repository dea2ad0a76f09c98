/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static int help_of(const char *name)
{
    char help[] = "--help";

    for (size_t i = 0; i < gf_command_count; i++) {
        const struct gf_command *command = &gf_commands[i];
        if (strcmp(command->name, name) == 0) {
            char *argv[] = {(char *)(uintptr_t)command->name, help, NULL};
            return command->run(2, argv);
        }
    }
    return gf_cli_unknown_verb(name);
}

int gf_cmd_help(int argc, char **argv)
{
    if (argc > 1 && argv[1][0] != '-')
        return help_of(argv[1]);

    /* Without any argument the usage answers a mistake: it belongs on standard error. */
    FILE *out = argc ? stdout : stderr;
    fputs("Usage: gpufeed VERB [options]\n\n"
          "Puts the threads and the memory of an unmodified program on the NUMA node of the GPU\n"
          "that it uses, speeds up its copies from and to ordinary memory, and gives it a tuned\n"
          "allocator: gpufeed run -- python train.py\n\n",
          out);
    for (size_t i = 0; i < gf_command_count; i++)
        fprintf(out, "  %-10s%s\n", gf_commands[i].name, gf_commands[i].brief);
    fputs("\n`gpufeed help VERB` says more; gpufeed(1) says all.\n", out);
    return GF_EXIT_OK;
}
