/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/cmd_doctor.h"

#include "cli/common/cli.h"
#include "cli/common/flags.h"
#include "cli/common/jansson_text.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/doctor_schema.h"
#include "config/options.h"
#include "engine/machine/machine_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const status_names[] = {
    [gf_status_problem] = "problem",
    [gf_status_unknown] = "unknown",
    [gf_status_ok] = "ok",
};

static void print_help(void)
{
    puts(
        "Usage: gpufeed doctor [--json] [--machine FOLDER]\n\n"
        "Checks settings of the host and limits of the container that keep a GPU waiting. For "
        "each\n"
        "problem, it shows the evidence, why it matters, and a fix. It changes nothing. Run it in\n"
        "the container and under the launcher in which the program would run.\n\n"
        "  --json            print JSON\n"
        "  --machine FOLDER  check a recorded machine (`gpufeed topo --record`)\n\n"
        "Exit code: 3 if there is a problem, 0 otherwise.");
}

static void print_finding(const struct gf_finding *finding)
{
    printf("%-8s %s [%s]\n", status_names[finding->status], finding->summary, finding->check);
    if (*finding->evidence)
        printf("         evidence  %s\n", finding->evidence);
    if (finding->why)
        printf("         why       %s\n         fix       %s\n", finding->why, finding->fix);
}

static size_t count_status(const struct gf_findings *findings, enum gf_status status)
{
    size_t count = 0;
    for (size_t i = 0; i < findings->count; i++)
        count += findings->list[i].status == status;
    return count;
}

static void print_text(const struct gf_findings *findings)
{
    const size_t problems = count_status(findings, gf_status_problem);

    for (enum gf_status status = 0; status < GF_ARRAY_LEN(status_names); status++)
        for (size_t i = 0; i < findings->count; i++)
            if (findings->list[i].status == status)
                print_finding(&findings->list[i]);
    printf("\n%zu problem%s, %zu ok, %zu unknown\n", problems, problems == 1 ? "" : "s",
           count_status(findings, gf_status_ok), count_status(findings, gf_status_unknown));
}

static json_t *finding_json(const struct gf_finding *finding)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o}", "check", finding->check, "status",
                     status_names[finding->status], "summary", finding->summary, "evidence",
                     gf_json_text(finding->evidence), "why", gf_json_text(finding->why), "fix",
                     gf_json_text(finding->fix));
}

/* 0 or -ENOMEM. */
static int print_json(const struct gf_findings *findings)
{
    json_t *list = json_array();

    for (size_t i = 0; i < findings->count; i++)
        json_array_append_new(list, finding_json(&findings->list[i]));
    json_t *whole = json_pack("{s:i, s:s, s:o}", "schema", GF_DOCTOR_SCHEMA, "version", GF_VERSION,
                              "findings", list);
    char *text = whole ? json_dumps(whole, JSON_INDENT(2)) : NULL;
    const int failed = text && puts(text) >= 0 ? 0 : -ENOMEM;
    free(text);
    json_decref(whole);
    return failed;
}

static int show_findings(const char *root, bool json)
{
    static struct gf_topo topo;
    static struct gf_findings findings;
    struct gf_machine *machine;
    int failed = 0;

    const int error = gf_machine_load(root, &machine);
    if (error)
        return gf_cli_machine_error("doctor", root, error);
    gf_topo_gather(machine, root, environ, &topo);
    gf_doctor_run(&(struct gf_check_input){root, &topo}, &findings);
    if (json)
        failed = print_json(&findings);
    else
        print_text(&findings);
    gf_machine_free(machine);
    if (failed)
        return GF_EXIT_FAILED;
    return count_status(&findings, gf_status_problem) ? GF_EXIT_PROBLEM : GF_EXIT_OK;
}

enum { FLAG_JSON = 1, FLAG_MACHINE };

static const struct option flags[] = {
    {"json", no_argument, NULL, FLAG_JSON},
    {"machine", required_argument, NULL, FLAG_MACHINE},
    {"help", no_argument, NULL, GF_FLAG_HELP},
    {0},
};

int gf_cmd_doctor(int argc, char **argv)
{
    static struct gf_options options;
    struct gf_flags reader = {.argc = argc, .argv = argv, .flags = flags};
    const char *machine = NULL;
    bool json = false;
    int code;

    while ((code = gf_flags_next(&reader)) != GF_FLAG_END) {
        switch (code) {
        case FLAG_JSON:
            json = true;
            break;
        case FLAG_MACHINE:
            machine = optarg;
            break;
        case GF_FLAG_HELP:
            print_help();
            return GF_EXIT_OK;
        case GF_FLAG_NO_VALUE:
            gf_cli_error("doctor", "--%s needs a folder", reader.flag->name);
            return GF_EXIT_USAGE;
        default:
            return GF_EXIT_USAGE;
        }
    }
    if (reader.at < argc)
        return gf_flags_excess("doctor", argv[reader.at]);
    gf_options_load(&options, environ);
    return show_findings(machine ? machine : options.machine, json);
}
