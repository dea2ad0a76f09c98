/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/doctor.h"
#include "config/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct arguments {
    bool json;
    const char *machine; /* NULL: as GPUFEED_MACHINE says */
    const char *record;
};

static void help(void)
{
    puts("Usage: gpufeed topo [--json] [--machine FOLDER]\n"
         "       gpufeed topo --record FOLDER\n\n"
         "Shows nodes with their CPUs and memory, GPUs with their node and where that is known\n"
         "from, and what this process may use.\n\n"
         "  --json            the same as JSON\n"
         "  --machine FOLDER  a recorded machine instead of this one\n"
         "  --record FOLDER   write this machine down, for --machine, GPUFEED_MACHINE and `gpufeed doctor`");
}

static int read_arguments(int argc, char **argv, struct arguments *ret)
{
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (strcmp(argv[i], "--json") == 0) {
            ret->json = true;
        } else if ((value = gf_cli_value(argv, &i, "--machine"))) {
            ret->machine = value;
        } else if ((value = gf_cli_value(argv, &i, "--record"))) {
            ret->record = value;
        } else {
            return gf_cli_not_understood("topo", argv[i]);
        }
    }
    return GF_EXIT_OK;
}

static int record(const char *folder)
{
    int error = gf_machine_record(folder);

    if (!error)
        error = gf_visible_record(folder);
    if (!error)
        error = gf_doctor_record(folder);
    if (!error)
        return GF_EXIT_OK;
    gf_cli_error("topo", "cannot record into %s: %s", folder, strerror(-error));
    return GF_EXIT_FAILED;
}

static int show(const char *root, bool json)
{
    static struct gf_topo topo;
    struct gf_machine *machine;

    const int error = gf_machine_load(root, &machine);
    if (error)
        return gf_cli_no_machine("topo", root, error);
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
    int code;

    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        help();
        return GF_EXIT_OK;
    }
    if ((code = read_arguments(argc, argv, &arguments)))
        return code;
    if (arguments.record)
        return record(arguments.record);
    gf_options_load(&options, environ);
    return show(arguments.machine ? arguments.machine : options.machine, arguments.json);
}
