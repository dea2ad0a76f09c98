/* SPDX-License-Identifier: Apache-2.0 */
#include "abi/formats.h"
#include "config/option_text.h"
#include "host/machine_load.h"
#include "os/cgroup.h"
#include "tools/common/cli.h"
#include "tools/doctor/finding.h"

#include <fcntl.h>
#include <stdlib.h>

static const struct {
    const char *name;
    gf_check *run;
    const char *why, *page;
    const char *where[gf_where_count];
} checks[] = {
#define GF_CHECK(token, name, reads, why, page, ...)                                               \
    {name, gf_check_##token, why, page, {__VA_ARGS__}},
#include "tools/doctor/checks.def"
};

/* Runs all checks, in the order of checks.def. */
static void gf_doctor_run(const struct gf_check_input *input, struct gf_findings *ret)
{
    ret->count = 0;
    for (size_t i = 0; i < GF_ARRAY_LEN(checks); i++) {
        const size_t before = ret->count;
        checks[i].run(input, ret);
        gf_findings_group(ret, before);
        for (size_t j = before; j < ret->count; j++) {
            struct gf_finding *finding = &ret->list[j];
            finding->check = checks[i].name;
            if (finding->status != gf_status_problem)
                continue;
            if (!finding->why)
                finding->why = checks[i].why;
            finding->page = checks[i].page;
            memcpy(finding->where, checks[i].where, sizeof(finding->where));
        }
    }
}

static const char *const status_names[] = {
    [gf_status_problem] = "problem",
    [gf_status_unknown] = "unknown",
    [gf_status_ok] = "ok",
};

static const char *const where_names[] = {
    [gf_where_docker] = "docker",
    [gf_where_kubernetes] = "k8s",
    [gf_where_slurm] = "slurm",
};

static void print_doctor_help(void)
{
    puts("Usage: gpufeed doctor [--json | --fix] [--data FOLDER] [--machine FOLDER]\n\n"
         "Finds settings of the host and limits of the container that keep a GPU waiting.\n"
         "For each problem, it shows the evidence, why it matters, and a fix. It changes\n"
         "nothing. Run it in the container of the program, and start it by the program's\n"
         "launcher.\n\n"
         "  --json            print JSON\n"
         "  --fix             print a shell script that fixes the host; it is not executed\n"
         "  --data FOLDER     also check the storage of the program's data\n"
         "  --machine FOLDER  check a recorded machine (`gpufeed topo --record`)\n\n"
         "Some options of the library change what it checks, such as\n"
         "GPUFEED_PROFILE=inference (latency instead of throughput): docs/doctor.md.\n"
         "Exit code: 0 if there is no problem, 1 if there is one, 2 if the machine or the\n"
         "folder of --data cannot be read.");
}

/*
 * Whether the doctor runs there. Only that fix is printed, because most fixes of one problem are
 * the same in other words. Variables count also for a recorded machine.
 */
static bool runs_in(const struct gf_check_input *input, enum gf_where where)
{
    const bool in_pod = getenv("KUBERNETES_SERVICE_HOST");
    char container[GF_CONTAINER_ID];

    switch (where) {
    case gf_where_kubernetes:
        return in_pod;
    case gf_where_slurm:
        return getenv("SLURM_JOB_ID");
    default:
        return !in_pod && !gf_check_is_recorded(input) && gf_container_id(container);
    }
}

/* Prints a sentence, wrapped on a terminal. Commands are not wrapped, so that they can be copied. */
static void print_sentence(const char *label, const char *text, unsigned indent)
{
    if (isatty(STDOUT_FILENO))
        gf_wrap(label, text, indent, gf_wrap_width());
    else
        printf("%-*s%s\n", (int)indent, label, text);
}

static void print_finding(const struct gf_finding *finding, const struct gf_check_input *input)
{
    print_sentence(status_names[finding->status],
                   gf_text("%s [%s]", finding->summary, finding->check), 9);
    if (*finding->evidence)
        print_sentence("         evidence", finding->evidence, 19);
    if (finding->why) {
        print_sentence("         why", gf_text("%s (docs/%s)", finding->why, finding->page), 19);
        printf("         fix       %s\n", finding->fix);
    }
    for (enum gf_where i = 0; i < gf_where_count; i++)
        if (finding->where[i] && runs_in(input, i))
            printf("         %-10s%s\n", where_names[i], finding->where[i]);
}

static size_t count_status(const struct gf_findings *findings, enum gf_status status)
{
    size_t count = 0;
    for (size_t i = 0; i < findings->count; i++)
        count += findings->list[i].status == status;
    return count;
}

static void print_text(const struct gf_findings *findings, const struct gf_check_input *input)
{
    const size_t problems = count_status(findings, gf_status_problem);

    for (enum gf_status status = 0; status < GF_ARRAY_LEN(status_names); status++)
        for (size_t i = 0; i < findings->count; i++)
            if (findings->list[i].status == status)
                print_finding(&findings->list[i], input);
    putchar('\n');
    if (problems)
        print_sentence(
            "", "--json has the fixes for Docker, Kubernetes and Slurm, and --fix prints a script.",
            0);
    printf("%zu problem%s, %zu ok, %zu unknown\n", problems, problems == 1 ? "" : "s",
           count_status(findings, gf_status_ok), count_status(findings, gf_status_unknown));
}

static json_t *finding_json(const struct gf_finding *finding)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "check",
                     finding->check, "status", status_names[finding->status], "summary",
                     finding->summary, "evidence", gf_json_text(finding->evidence), "why",
                     gf_json_text(finding->why), "page", gf_json_text(finding->page), "fix",
                     gf_json_text(finding->fix), "script", gf_json_text(finding->script), "docker",
                     gf_json_text(finding->where[gf_where_docker]), "kubernetes",
                     gf_json_text(finding->where[gf_where_kubernetes]), "slurm",
                     gf_json_text(finding->where[gf_where_slurm]));
}

/*
 * Prints the fixes as a shell script. If a command fails, for example in a container, the script goes
 * on with the next one. Fixes that are no commands, or may harm running programs, become comments.
 */
static void print_script(const struct gf_findings *findings)
{
    puts("#!/bin/sh\n# Written by gpufeed doctor. Read it, then run it as root on the host.\n"
         "# Most settings last until the next boot. irqbalance may undo those of interrupts.\nset "
         "-u");
    for (size_t i = 0; i < findings->count; i++) {
        const struct gf_finding *finding = &findings->list[i];
        if (finding->status != gf_status_problem)
            continue;
        printf("\n# %s [%s]\n", finding->summary, finding->check);
        if (*finding->script)
            printf("%s || echo 'not fixed: [%s]' >&2\n", finding->script, finding->check);
        else
            printf("# by hand: %s\n", finding->fix);
    }
}

enum output { OUTPUT_TEXT, OUTPUT_JSON, OUTPUT_SCRIPT };

static int show_findings(struct gf_check_input *input, enum output output)
{
    static struct gf_topo topo;
    static struct gf_findings findings;
    struct gf_machine *machine;

    const int error = gf_machine_load(input->root, &machine);
    if (error)
        return gf_cli_fail(GF_EXIT_CANNOT_LOOK, "%s", gf_cli_machine_reason(input->root, error));
    gf_topo_gather(machine, input->root, &topo);
    input->topo = &topo;
    gf_doctor_run(input, &findings);
    if (output == OUTPUT_JSON)
        gf_cli_print_json(json_pack(
            "{s:i, s:s, s:o}", "schema", GF_DOCTOR_SCHEMA, "version", GF_VERSION, "findings",
            GF_JSON_LIST(i, findings.count, finding_json(&findings.list[i]))));
    else if (output == OUTPUT_SCRIPT)
        print_script(&findings);
    else
        print_text(&findings, input);
    gf_machine_free(machine);
    if (fflush(stdout) || ferror(stdout))
        return GF_EXIT_CANNOT_LOOK;
    return count_status(&findings, gf_status_problem) ? GF_EXIT_PROBLEM : GF_EXIT_OK;
}

/*
 * Whether the folder of --data exists. A recording has no files of it, so that only its path
 * counts. If it does not exist, prints an error.
 */
static bool has_data(const struct gf_check_input *input)
{
    if (!input->data || gf_check_is_recorded(input))
        return true;
    const int fd = open(input->data, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        gf_cli_error("--data: cannot read %s: %s", input->data, strerror(errno));
    else
        close(fd);
    return fd >= 0;
}

enum { FLAG_JSON = 1, FLAG_FIX, FLAG_DATA, FLAG_MACHINE };

static const struct option flags[] = {
    {"json", no_argument, NULL, FLAG_JSON},
    {"fix", no_argument, NULL, FLAG_FIX},
    {"data", required_argument, NULL, FLAG_DATA},
    {"machine", required_argument, NULL, FLAG_MACHINE},
    {"help", no_argument, NULL, GF_FLAG_HELP},
    {0},
};

struct arguments {
    struct gf_check_input input;
    const char *machine; /* NULL: use GPUFEED_MACHINE, if it is set */
    enum output output;
};

static int read_doctor_flag(void *closure, int code, const struct gf_flags *reader)
{
    struct arguments *ret = closure;

    if (code == GF_FLAG_NO_VALUE)
        return gf_cli_fail(GF_EXIT_USAGE, "--%s needs a folder", reader->flag->name);
    if (code == FLAG_DATA || code == FLAG_MACHINE)
        *(code == FLAG_DATA ? &ret->input.data : &ret->machine) = optarg;
    else
        ret->output = code == FLAG_JSON ? OUTPUT_JSON : OUTPUT_SCRIPT;
    return GF_EXIT_OK;
}

int gf_cmd_doctor(int argc, char **argv)
{
    static const struct gf_words words = {.help = print_doctor_help, .flag = read_doctor_flag};
    static struct gf_options options;
    struct gf_flags reader = {.argc = argc, .argv = argv, .flags = flags};
    struct arguments arguments = {.input = {.options = &options}};
    struct gf_check_input *input = &arguments.input;
    int code;

    if (!gf_flags_read(&reader, &words, &arguments, &code))
        return code;
    gf_validate_environment(environ, false, gf_cli_report, NULL);
    gf_options_load(&options, environ);
    input->root = arguments.machine ? arguments.machine : options.machine;
    return has_data(input) ? show_findings(input, arguments.output) : GF_EXIT_USAGE;
}
