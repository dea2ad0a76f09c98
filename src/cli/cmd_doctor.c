/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/json.h"
#include "config/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA 1

static const char *const words[] = {
    [gf_health_mend] = "mend", [gf_health_unknown] = "unknown", [gf_health_fine] = "fine"};

static void help(void)
{
    puts("Usage: gpufeed doctor [--json] [--machine FOLDER]\n\n"
         "Looks at settings of the host and limits of the container that keep a GPU waiting. Of each\n"
         "that somebody should change: what was read where, why it matters, and what mends it. It\n"
         "changes nothing. Run it where the program would run: in the container, under the launcher.\n\n"
         "  --json            the same as JSON\n"
         "  --machine FOLDER  what a recorded machine's files tell (`gpufeed topo --record`)\n\n"
         "Exit code 0: nothing to mend; 3: something.");
}

static void print_one(const struct gf_advice *advice)
{
    printf("%-8s %s\n", words[advice->health], advice->what);
    if (*advice->read)
        printf("         read  %s\n", advice->read);
    if (advice->why)
        printf("         why   %s\n         do    %s\n", advice->why, advice->mend);
}

static size_t count_of(const struct gf_advices *advices, enum gf_health health)
{
    size_t count = 0;
    for (size_t i = 0; i < advices->count; i++)
        count += advices->list[i].health == health;
    return count;
}

static void print(const struct gf_advices *advices)
{
    for (enum gf_health health = 0; health < GF_ARRAY_LEN(words); health++)
        for (size_t i = 0; i < advices->count; i++)
            if (advices->list[i].health == health)
                print_one(&advices->list[i]);
    printf("\n%zu to mend, %zu fine, %zu not known\n", count_of(advices, gf_health_mend),
           count_of(advices, gf_health_fine), count_of(advices, gf_health_unknown));
}

static int print_json(const struct gf_advices *advices)
{
    json_t *list = json_array();

    for (size_t i = 0; i < advices->count; i++) {
        const struct gf_advice *advice = &advices->list[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "check", advice->check, "health",
                                              words[advice->health], "what", gf_json_text(advice->what), "read",
                                              gf_json_text(advice->read), "why", gf_json_text(advice->why), "do",
                                              gf_json_text(advice->mend)));
    }
    json_t *whole = json_pack("{s:i, s:s, s:o}", "schema", SCHEMA, "version", GF_VERSION, "findings", list);
    char *text = whole ? json_dumps(whole, JSON_INDENT(2)) : NULL;
    const int failed = text && puts(text) >= 0 ? 0 : -ENOMEM;
    free(text);
    json_decref(whole);
    return failed;
}

static int show(const char *root, bool json)
{
    static struct gf_topo topo;
    static struct gf_advices advices;
    struct gf_machine *machine;

    const int error = gf_machine_load(root, &machine);
    if (error)
        return gf_cli_no_machine("doctor", root, error);
    gf_topo_gather(machine, root, environ, &topo);
    gf_doctor_see(&(struct gf_patient){root, &topo}, &advices);
    int failed = 0;
    if (json)
        failed = print_json(&advices);
    else
        print(&advices);
    gf_machine_free(machine);
    return failed ? GF_EXIT_FAILED : count_of(&advices, gf_health_mend) ? GF_EXIT_MEND : GF_EXIT_OK;
}

int gf_cmd_doctor(int argc, char **argv)
{
    static struct gf_options options;
    const char *machine = NULL, *value;
    bool json = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            help();
            return GF_EXIT_OK;
        }
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if ((value = gf_cli_value(argv, &i, "--machine"))) {
            machine = value;
        } else {
            return gf_cli_not_understood("doctor", argv[i]);
        }
    }
    gf_options_load(&options, environ);
    return show(machine ? machine : options.machine, json);
}
