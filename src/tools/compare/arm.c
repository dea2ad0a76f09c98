/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/compare/arm.h"

#include "config/option_text.h"
#include "tools/common/cli.h"

static struct gf_arm *find_arm(struct gf_arms *arms, const char *name, size_t length)
{
    for (size_t i = 0; i < arms->count; i++)
        if (strlen(arms->list[i].name) == length && memcmp(arms->list[i].name, name, length) == 0)
            return &arms->list[i];
    if (arms->count == GF_ARRAY_LEN(arms->list)) {
        gf_cli_error("compare", "%.*s is a third arm; only two arms can be compared", (int)length,
                     name);
        return NULL;
    }
    struct gf_arm *arm = &arms->list[arms->count++];
    memcpy(arm->name, name, length);
    return arm;
}

static void report_mistake(void *closure, const char *line)
{
    /*
     * Removes the end of the line, which names the default that the library would use. `compare`
     * exits with an error instead.
     */
    const char *end = strstr(line, "; using ");

    *(bool *)closure = true;
    gf_cli_error("compare", "%.*s", end ? (int)(end - line) : (int)strlen(line), line);
}

/*
 * Checks the arms' options. The library would ignore an invalid value, and then both arms would run
 * with the same settings.
 */
static int check_variable(const char *variable)
{
    char *const entries[] = {(char *)(uintptr_t)variable, NULL};
    bool mistaken = false;

    if (strncmp(variable, "GPUFEED_REPORT=", strlen("GPUFEED_REPORT=")) == 0)
        return gf_cli_fail(-EINVAL, "compare", "GPUFEED_REPORT is set by `gpufeed compare` itself");
    gf_validate_environment(entries, true, report_mistake, &mistaken);
    return mistaken ? -EINVAL : 0;
}

int gf_arms_add(struct gf_arms *arms, const char *text)
{
    const char *colon = strchr(text, ':');
    const char *variable = colon ? colon + 1 : "";
    const size_t length = colon ? (size_t)(colon - text) : 0;
    const char *equals = strchr(variable, '=');

    if (!length || length >= sizeof(arms->list[0].name) ||
        (*variable && (!equals || equals == variable)))
        return gf_cli_fail(-EINVAL, "compare",
                           "--arm=%.80s is not NAME:VAR=VALUE with a name of at most 31 characters",
                           text);
    struct gf_arm *arm = find_arm(arms, text, length);
    if (!arm || (*variable && check_variable(variable)))
        return -EINVAL;
    size_t count = 0;
    while (arm->variables[count])
        count++;
    if (count == GF_ARM_VARIABLES)
        return gf_cli_fail(-EINVAL, "compare", "arm %s has more than %d variables", arm->name,
                           GF_ARM_VARIABLES);
    if (*variable)
        arm->variables[count] = variable;
    return 0;
}

int gf_arms_finish(struct gf_arms *arms)
{
    if (arms->count == GF_ARRAY_LEN(arms->list))
        return 0;
    if (arms->count)
        return gf_cli_fail(-EINVAL, "compare",
                           "%s is the only arm; a comparison needs two: add another --arm",
                           arms->list[0].name);
    *arms = (struct gf_arms){.list = {{.name = "observe", .variables = {"GPUFEED=observe"}},
                                      {.name = "on", .variables = {"GPUFEED=on"}}},
                             .count = 2};
    return 0;
}
