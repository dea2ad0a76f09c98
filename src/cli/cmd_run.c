/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"
#include "cli/early.h"
#include "cli/env.h"
#include "cli/flags.h"
#include "cli/preload.h"
#include "cli/program.h"
#include "config/options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void complain(void *closure, const char *line)
{
    (void)closure;
    gf_cli_error("run", "%s", line);
}

/* Said here, so that a child that reaches CUDA need not say it again. */
static void drop_bad_options(struct gf_env *env)
{
    size_t kept = 0;

    gf_options_complain(env->entries, true, complain, NULL);
    for (size_t i = 0; i < env->count; i++)
        if (!gf_options_rejects(env->entries[i]))
            env->entries[kept++] = env->entries[i];
    env->count = kept;
    env->entries[kept] = NULL;
}

static void set_defaults(struct gf_env *env)
{
    for (size_t i = 0; i < gf_option_row_count; i++) {
        const struct gf_option_row *row = &gf_option_rows[i];
        const char *fallback = gf_option_fallback(row, true);
        if (strcmp(fallback, row->fallback) != 0 && !gf_env_get(env, row->name))
            gf_env_set(env, row->name, fallback);
    }
}

/* A run-time of a sanitizer that was preloaded ends the program if it does not come first. */
static bool preloads_sanitizer(const char *preload)
{
    static const char *const names[] = {"libasan.so",   "libtsan.so", "liblsan.so",
                                        "libhwasan.so", "libclang_rt."};

    for (size_t i = 0; preload && i < GF_ARRAY_LEN(names); i++)
        if (strstr(preload, names[i]))
            return true;
    return false;
}

/* What in the environment would end the program under a preload of ours; NULL: nothing. */
static const char *obstacle_around(const struct gf_env *env)
{
    const char *audit = gf_env_get(env, "LD_AUDIT"), *tunables = gf_env_get(env, "GLIBC_TUNABLES");

    /* glibc then keeps too little thread-local memory for a preloaded jemalloc. */
    if (audit && *audit && !(tunables && strstr(tunables, "glibc.rtld.optional_static_tls=")))
        return "LD_AUDIT leaves a preload no room (GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096 "
               "makes some)";
    if (preloads_sanitizer(gf_env_get(env, "LD_PRELOAD")))
        return "a sanitizer in LD_PRELOAD bears no other before it";
    return NULL;
}

/* An outer run, or the image, may have put it there. */
static void leave_out(struct gf_env *env, const char *library)
{
    const char *present = gf_env_get(env, "LD_PRELOAD");
    if (!present)
        return;
    char *joined = gf_preload_join(library, present);
    if (!joined)
        return;
    const char *rest = joined + strlen(library);
    gf_env_set(env, "LD_PRELOAD", *rest == ':' ? rest + 1 : NULL);
    free(joined);
}

/*
 * Puts the library first in the child's LD_PRELOAD, unless the program could not bear it.
 * *ret_preloaded says whether the program itself will have it.
 */
static int set_preload(struct gf_env *env, const char *program, const char *name,
                       bool *ret_preloaded)
{
    char library[PATH_MAX];
    struct gf_obstacle obstacle;

    *ret_preloaded = false;
    const int error = gf_preload_find(library, sizeof(library));
    if (error == -ENOENT) {
        gf_cli_error("run", "libgpufeed.so is not where this command expects it (%s of its own folder): "
                            "install it again, or copy the whole folder of the bundle",
                     GF_LIBDIR_FROM_BINDIR);
        return error;
    }
    if (error) {
        gf_cli_error("run", "%s: LD_PRELOAD cannot carry a path with a blank, a colon or a dollar "
                            "sign; %s runs without the library",
                     library, name);
        return 0;
    }
    const char *around = obstacle_around(env);
    if (around) {
        gf_cli_error("run", "%s: %s runs without the library", around, name);
        leave_out(env, library);
        return 0;
    }
    gf_program_inspect(program, &obstacle);
    if (obstacle.why)
        gf_cli_error("run", "%s is %s, where a preload cannot work: it runs without the library",
                     name, obstacle.why);
    *ret_preloaded = !obstacle.why;
    if (!obstacle.why || obstacle.harmless) {
        char *joined = gf_preload_join(library, gf_env_get(env, "LD_PRELOAD"));
        gf_env_set(env, "LD_PRELOAD", joined);
        free(joined);
    } else {
        leave_out(env, library);
    }
    return 0;
}

static void print_plan(const struct gf_env *env, const char *program, char **argv)
{
    printf("program     %s\n", program);
    printf("arguments  ");
    for (char **word = argv + 1; *word; word++)
        printf(" %s", *word);
    const char *preload = gf_env_get(env, "LD_PRELOAD");
    printf("\nLD_PRELOAD  %s\n", preload ? preload : "");
    for (size_t i = 0; i < gf_option_row_count; i++) {
        const char *value = gf_env_get(env, gf_option_rows[i].name);
        if (value)
            printf("%s=%s\n", gf_option_rows[i].name, value);
    }
}

static void describe_early(const struct gf_early *early, char *buf, size_t size)
{
    static char cpus[1024];
    const struct gf_verdict *verdict = &early->verdict;

    if (!early->known)
        snprintf(buf, size, "not before the start: %s", early->certain.why);
    else if (verdict->bound == gf_bound_none || verdict->bound == gf_bound_submitters)
        snprintf(buf, size, "not before the start: %s", verdict->reason);
    else
        snprintf(buf, size, "GPU %s%s (%s): %s, CPUs %s, memory: %s%s%s", early->certain.gpus[0].bdf,
                 early->certain.count > 1 ? " and others" : "", early->certain.why,
                 gf_bound_name(verdict->bound), gf_set_format(&verdict->cpus, cpus, sizeof(cpus)),
                 verdict->policy_reason, *early->note ? "; " : "", early->note);
}

/* What the library says later from what it reads back is not said twice: only at VERBOSE=2. */
static void bind_early(struct gf_env *env, bool dry)
{
    static struct gf_options options;
    static struct gf_early early;
    static char text[2048];

    gf_options_load(&options, env->entries);
    gf_early_bind(env, &options, dry, &early);
    describe_early(&early, text, sizeof(text));
    if (dry)
        printf("binding     %s\n", text);
    else if (options.verbose >= 2 || (*early.note && options.verbose >= 1))
        gf_cli_error("run", "%s", text);
}

static int cannot_run(const char *name, const char *program, int error)
{
    char lacking[PATH_MAX];

    if (error == ENOENT && *program && gf_program_lacks(program, lacking, sizeof(lacking))) {
        /* No terminal shows a carriage return. */
        const size_t length = strcspn(lacking, "\r");
        const bool cr = lacking[length];
        lacking[length] = '\0';
        gf_cli_error("run", "cannot run %s: its interpreter %s%s is not there%s", name, lacking,
                     cr ? "\\r" : "", cr ? ": the lines of the script end in CR LF" : "");
    } else if (error == ENOENT && *name && !strchr(name, '/')) {
        gf_cli_error("run", "cannot run %s: it is in no folder of PATH", name);
    } else {
        gf_cli_error("run", "cannot run %s: %s", *name ? name : "\"\"", strerror(error));
    }
    return error == ENOENT ? GF_EXIT_NOT_FOUND : GF_EXIT_CANNOT_RUN;
}

int gf_cmd_run(int argc, char **argv)
{
    struct gf_env env;
    struct gf_flags flags;
    char program[PATH_MAX];

    gf_env_copy(environ, &env);
    if (gf_flags_read(argc, argv, &env, &flags))
        return GF_EXIT_USAGE;
    if (flags.help) {
        gf_flags_help(stdout);
        return GF_EXIT_OK;
    }
    if (flags.command == argc) {
        gf_cli_error("run", "no command to run: gpufeed run [flags] -- COMMAND");
        return GF_EXIT_USAGE;
    }
    char **command = argv + flags.command;
    drop_bad_options(&env);
    const int missing = gf_program_find(command[0], gf_env_get(&env, "PATH"), program,
                                        sizeof(program));
    if (missing)
        return cannot_run(command[0], "", -missing);
    set_defaults(&env);
    bool preloaded;
    if (set_preload(&env, program, command[0], &preloaded))
        return GF_EXIT_FAILED;
    if (flags.print)
        print_plan(&env, program, command);
    if (preloaded)
        bind_early(&env, flags.print);
    if (flags.print)
        return GF_EXIT_OK;
    execvpe(command[0], command, env.entries);
    return cannot_run(command[0], program, errno);
}
