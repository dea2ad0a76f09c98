/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `gpufeed doctor --fix` and `gpufeed topo` on a recorded machine whose files have any content. Zero bytes
 * divide the input into parts. Each part is one file, in the order of the list below.
 */
#include "fuzz.h"

#include "tools/common/cli.h"

#include <sys/mman.h>
#include <unistd.h>

#define CPU "sys/devices/system/cpu/"
#define NODE "sys/devices/system/node/"
#define PCI "sys/bus/pci/devices/0000:1b:00.0/"

static const char *const files[] = {
    "topology.xml",
    "topology.txt",
    CPU "online",
    CPU "isolated",
    NODE "online",
    NODE "has_memory",
    NODE "node0/cpulist",
    NODE "node0/distance",
    NODE "node0/meminfo",
    PCI "vendor",
    PCI "class",
    PCI "numa_node",
    PCI "local_cpulist",
    PCI "config",
    "proc/self/mountinfo",
    "proc/cmdline",
    "proc/meminfo",
    "proc/swaps",
    "proc/driver/nvidia/version",
    "proc/driver/nvidia/gpus/0000:1b:00.0/information",
    "sys/class/bdi/8:1/read_ahead_kb",
    "sys/kernel/mm/transparent_hugepage/enabled",
    CPU "cpu0/cpufreq/scaling_governor",
    CPU "cpu0/cpuidle/state0/name",
    "dev/kmsg",
};

#include "tree.h"

/* A line is a message, or a comment of the script, or has no character that begins another command. */
static void check_script(char *text)
{
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *end = strstr(line, " || echo 'not fixed: [");
        if (end)
            *end = '\0';
        CHECK(*line == '#' || strncmp(line, "gpufeed ", 8) == 0 ||
              strncmp(line, "for i in /sys/", 14) == 0 || !strpbrk(line, "$`;&|\\<'\"()"));
    }
}

static void check_output(int (*command)(int, char **), int argc, char **argv)
{
    static char text[1 << 20];
    const int to = memfd_create("text", MFD_CLOEXEC);
    const int out = dup(STDOUT_FILENO), error = dup(STDERR_FILENO);

    CHECK(to >= 0 && out >= 0 && error >= 0);
    gf_cli_verb = argv[0]; /* messages begin with it */
    fflush(stdout);
    CHECK(dup2(to, STDOUT_FILENO) >= 0 && dup2(to, STDERR_FILENO) >= 0);
    const int code = command(argc, argv);
    fflush(stdout);
    CHECK(dup2(out, STDOUT_FILENO) >= 0 && dup2(error, STDERR_FILENO) >= 0);
    const ssize_t length = pread(to, text, sizeof(text) - 1, 0);
    CHECK(code >= 0 && code <= GF_EXIT_USAGE + 2 && length >= 0);
    text[length] = '\0';
    for (ssize_t i = 0; i < length; i++)
        CHECK(text[i] == '\n' || (text[i] >= 0x20 && text[i] < 0x7f) || text[i] < 0);
    if (strcmp(argv[argc - 1], "--fix") == 0)
        check_script(text);
    close(to);
    close(out);
    close(error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    char doctor[] = "doctor", topo[] = "topo", machine[] = "--machine", fix[] = "--fix",
         json[] = "--json", at[] = "--data", folder[] = "/data";

    if (!made)
        make_root();
    made = true;
    put_files(data, size);
    check_output(gf_cmd_doctor, 6, (char *[]){doctor, machine, root, at, folder, fix, NULL});
    check_output(gf_cmd_doctor, 4, (char *[]){doctor, machine, root, json, NULL});
    check_output(gf_cmd_topo, 3, (char *[]){topo, machine, root, NULL});
    return 0;
}
