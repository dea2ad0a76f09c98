/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"
#include "os/permit.h"
#include "tools/common/cli.h"

#include <stdio.h>

/* A verb. Each is implemented in a file cmd_<verb>.c. */
struct gf_verb {
    const char *name;
    const char *brief;
    int (*run)(int argc, char **argv); /* argv[0] is the verb; returns the exit code */
};

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct gf_verb verbs[] = {
    {"run", "run a program with the library preloaded", gf_cmd_run},
    {"report", "show what a job waited for, from its logs and reports", gf_cmd_report},
    {"compare", "compare runs with and without the library's changes", gf_cmd_compare},
    {"stacks", "show Python and native stacks of every thread of a process", gf_cmd_stacks},
    {"top", "show running processes that use the library, like top(1)", gf_cmd_top},
    {"topo", "show NUMA nodes, CPUs and GPUs, and which this process may use", gf_cmd_topo},
    {"doctor", "find settings and limits that keep a GPU waiting, with a fix", gf_cmd_doctor},
    {"preload-path", "print the path of libgpufeed.so, for LD_PRELOAD", gf_cmd_preload_path},
    {"help", "show this help, or the help of a verb", cmd_help},
    {"version", "show the version of gpufeed and of the libraries inside", cmd_version},
};

static void print_verbs(FILE *out)
{
    fputs("Usage: gpufeed VERB [options]\n\n"
          "Runs an unmodified program with libgpufeed, which places the program's threads\n"
          "and memory on the GPU's NUMA node, speeds up copies of pageable memory, and\n"
          "serves malloc from a tuned jemalloc: gpufeed run -- python train.py\n\n",
          out);
    for (size_t i = 0; i < GF_ARRAY_LEN(verbs); i++)
        fprintf(out, "  %-14s%s\n", verbs[i].name, verbs[i].brief);
    fputs("\n`gpufeed help VERB` shows a verb's flags; gpufeed(1) is the manual.\n\n"
          "Exit code: that of the verb, whose help names it; 2 if no verb has this name.\n",
          out);
}

/* Returns NULL if the name is no verb, after it has suggested the closest one. */
static const struct gf_verb *verb_by_name(const char *name)
{
    struct gf_nearest_word nearest;

    gf_cli_verb = "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    gf_nearest_word_begin(&nearest, name);
    for (size_t i = 0; i < GF_ARRAY_LEN(verbs); i++) {
        if (strcmp(verbs[i].name, name) == 0) {
            gf_cli_verb = verbs[i].name;
            return &verbs[i];
        }
        gf_nearest_word_try(&nearest, verbs[i].name, verbs[i].name);
    }
    if (nearest.found)
        gf_cli_error("%s is not a verb (did you mean %s?)", name, nearest.found);
    else
        gf_cli_error("%s is not a verb; `gpufeed help` lists them, and `gpufeed run -- COMMAND` "
                     "runs a program",
                     name);
    return NULL;
}

static int cmd_help(int argc, char **argv)
{
    char help[] = "--help";

    if (argc < 2 || argv[1][0] == '-') {
        print_verbs(stdout);
        return GF_EXIT_OK;
    }
    if (argc > 2)
        return gf_flags_excess(argv[2]);
    const struct gf_verb *verb = verb_by_name(argv[1]);
    char *of_verb[] = {argv[1], help, NULL};
    return verb ? verb->run(2, of_verb) : GF_EXIT_USAGE;
}

static int cmd_version(int argc, char **argv)
{
    if (argc > 1 && argv[1][0] != '-')
        return gf_flags_excess(argv[1]);
    if (argc > 1) {
        puts("Usage: gpufeed --version");
        return GF_EXIT_OK;
    }
    printf("gpufeed %s (jemalloc %s, hwloc %s, libnuma %s)\n", GF_VERSION, GF_JEMALLOC_VERSION,
           GF_HWLOC_VERSION, GF_NUMA_VERSION);
    return GF_EXIT_OK;
}

/*
 * Flushes standard output. Returns 0, or the errno of a failed write. If an earlier write failed,
 * its errno is lost and the buffer may be empty. So one more byte is written, which fails with the
 * same errno.
 */
static int flush_output(void)
{
    if (fflush(stdout))
        return errno;
    if (!ferror(stdout))
        return 0;
    return putchar('\n') < 0 || fflush(stdout) ? errno : EIO;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_verbs(stderr);
        return GF_EXIT_USAGE;
    }
    const struct gf_verb *verb = verb_by_name(argv[1]);
    if (!verb)
        return GF_EXIT_USAGE;
    gf_permit_find(GF_PERMIT_ALL);
    const int code = verb->run(argc - 1, argv + 1);
    gf_cli_verb = "";
    /* Scripts learn only from the exit code that the disk is full or the pipe is closed. */
    const int error = flush_output();
    if (!error)
        return code;
    return gf_cli_fail(code ? code : GF_EXIT_FAILED, "cannot write to standard output: %s",
                       strerror(error));
}
