/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/topo/cmd_topo.h"

#include "base/output_file.h"
#include "cli/common/cli.h"
#include "cli/common/flags.h"
#include "cli/topo/recording.h"
#include "cli/topo/topo.h"
#include "config/options.h"
#include "host/machine_load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct arguments {
    bool help, json;
    const char *machine; /* NULL: use GPUFEED_MACHINE, if it is set */
    const char *record;
};

static void print_help(void)
{
    puts("Usage: gpufeed topo [--json] [--machine FOLDER]\n"
         "       gpufeed topo --record FOLDER\n\n"
         "Shows the NUMA nodes with their CPUs and memory, the GPUs with their node and where\n"
         "the node was read, and which of them this process may use.\n\n"
         "  --json            print JSON\n"
         "  --machine FOLDER  show a recorded machine\n"
         "  --record FOLDER   record this machine, for --machine and GPUFEED_MACHINE");
}

enum { FLAG_JSON = 1, FLAG_MACHINE, FLAG_RECORD };

static const struct option flags[] = {
    {"json", no_argument, NULL, FLAG_JSON},
    {"machine", required_argument, NULL, FLAG_MACHINE},
    {"record", required_argument, NULL, FLAG_RECORD},
    {"help", no_argument, NULL, GF_FLAG_HELP},
    {0},
};

/* Returns 0 or the exit code. */
static int read_arguments(int argc, char **argv, struct arguments *ret)
{
    struct gf_flags reader = {.argc = argc, .argv = argv, .flags = flags};

    for (;;)
        switch (gf_flags_next(&reader)) {
        case FLAG_JSON:
            ret->json = true;
            break;
        case FLAG_MACHINE:
            ret->machine = optarg;
            break;
        case FLAG_RECORD:
            ret->record = optarg;
            break;
        case GF_FLAG_HELP:
            ret->help = true;
            return 0;
        case GF_FLAG_NO_VALUE:
            gf_cli_error("topo", "--%s needs a folder", reader.flag->name);
            return GF_EXIT_USAGE;
        case GF_FLAG_INVALID:
            return GF_EXIT_USAGE;
        default:
            return reader.at < argc ? gf_flags_excess("topo", argv[reader.at]) : 0;
        }
}

static int record_machine(const char *folder)
{
    const int error = gf_recording_write(folder);

    if (!error) {
        printf("wrote %s\n", folder);
        return GF_EXIT_OK;
    }
    gf_cli_error("topo", "cannot record into %s: %s", folder, gf_output_reason(error));
    return GF_EXIT_FAILED;
}

static int show_machine(const char *root, bool json)
{
    static struct gf_topo topo;
    struct gf_machine *machine;

    const int error = gf_machine_load(root, &machine);
    if (error)
        return gf_cli_machine_error("topo", root, error);
    gf_topo_gather(machine, root, environ, &topo);
    if (!json)
        gf_topo_print(&topo);
    const int failed = json ? gf_topo_print_json(&topo) : 0;
    gf_machine_free(machine);
    return failed ? GF_EXIT_FAILED : GF_EXIT_OK;
}

int gf_cmd_topo(int argc, char **argv)
{
    static struct gf_options options;
    struct arguments arguments = {0};
    const int code = read_arguments(argc, argv, &arguments);

    if (code)
        return code;
    if (arguments.help) {
        print_help();
        return GF_EXIT_OK;
    }
    if (arguments.record)
        return record_machine(arguments.record);
    gf_options_load(&options, environ);
    return show_machine(arguments.machine ? arguments.machine : options.machine, arguments.json);
}
