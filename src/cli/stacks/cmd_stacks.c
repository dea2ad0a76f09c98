/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stacks/cmd_stacks.h"

#include "base/parse.h"
#include "cli/common/cli.h"
#include "cli/common/flags.h"
#include "cli/stacks/live_state.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "gpufeed-stacks"

static void print_help(void)
{
    puts("Usage: gpufeed stacks PID\n\n"
         "Prints the Python and native stacks of every thread of a running process, with its "
         "state, its\n"
         "system call and the CPUs that it may use. The process is stopped for some milliseconds,\n"
         "and for 3 seconds at most. What was not read by then is named.\n"
         "It need not run with the library. Python frames are shown for CPython 3.9 to 3.15.\n"
         "If it uses the library, its GPUs, copies and hooked calls are printed first; with\n"
         "GPUFEED_LIVE=on, also the copies and calls of the last second.\n\n"
         "The kernel must permit tracing the process. In a container, this needs the capability\n"
         "SYS_PTRACE; on a host with kernel.yama.ptrace_scope=1, it needs sudo.");
}

int gf_cmd_stacks(int argc, char **argv)
{
    static const char *const places[] = {
        ".",         /* installed, or a bundle */
        "../stacks", /* a build tree */
    };
    char folder[PATH_MAX], path[PATH_MAX + sizeof(PROGRAM) + 16];
    const ssize_t length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);

    if (argc < 2) {
        gf_cli_error("stacks", "no process to show: gpufeed stacks PID");
        return GF_EXIT_USAGE;
    }
    if (argc > 2)
        return gf_flags_excess("stacks", argv[2]);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help();
        return GF_EXIT_OK;
    }
    uint64_t pid;
    if (gf_parse_u64(argv[1], &pid) || !pid || pid > INT_MAX) {
        gf_cli_error("stacks", "%s is not a process id", argv[1]);
        return GF_EXIT_USAGE;
    }
    folder[gf_max(length, (ssize_t)0)] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    gf_live_state_print((pid_t)pid);
    fflush(stdout);
    for (size_t i = 0; slash && i < GF_ARRAY_LEN(places); i++) {
        snprintf(path, sizeof(path), "%s/%s/" PROGRAM, folder, places[i]);
        execv(path, argv);
        if (errno != ENOENT)
            break;
    }
    gf_cli_error("stacks", "cannot start " PROGRAM " in the folder of this command: %s",
                 strerror(errno));
    return GF_EXIT_FAILED;
}
