/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/plan.h"

#include "cli/common/shell_word.h"
#include "config/options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PRELOAD "LD_PRELOAD"

/* Whether the entry is this process's own. gf_env_copy does not copy the strings. */
static bool is_inherited(const char *entry)
{
    for (char **own = environ; *own; own++)
        if (*own == entry)
            return true;
    return false;
}

/* Prints the options, also those that the user set, then the other variables that the command sets. */
static void print_variables(const struct gf_env *env)
{
    for (size_t i = 0; i < GF_OPTION_COUNT; i++) {
        const char *value = gf_env_get(env, gf_option_rows[i].name);
        if (!value)
            continue;
        printf("%s=", gf_option_rows[i].name);
        gf_shell_word(stdout, value);
        putchar('\n');
    }
    for (size_t i = 0; i < env->count; i++)
        if (!is_inherited(env->entries[i]) && strncmp(env->entries[i], "GPUFEED", 7) != 0 &&
            strncmp(env->entries[i], PRELOAD "=", sizeof(PRELOAD)) != 0)
            printf("%s\n", env->entries[i]);
}

void gf_plan_print(const struct gf_plan *plan)
{
    const char *preload = gf_env_get(plan->env, PRELOAD);

    printf("program     %s\n", plan->program);
    if (plan->command[1])
        fputs("arguments  ", stdout);
    for (char *const *word = plan->command + 1; *word; word++) {
        putchar(' ');
        gf_shell_word(stdout, *word);
    }
    if (plan->command[1])
        putchar('\n');
    if (plan->obstacle)
        printf("library     not loaded: %s%s\n", plan->obstacle,
               preload && *preload ? "; child processes inherit LD_PRELOAD" : "");
    printf("LD_PRELOAD  %s\n", preload ? preload : "");
    print_variables(plan->env);
    if (plan->huge_pages_off)
        puts("huge pages  off (PR_SET_THP_DISABLE)");
    if (*plan->binding)
        printf("binding     %s\n", plan->binding);
}
