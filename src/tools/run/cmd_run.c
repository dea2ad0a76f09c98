/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fmt.h"
#include "config/option_text.h"
#include "host/tasks.h"
#include "os/elf_fault.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/run/program_start.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* Shows what `gpufeed run` would do (--print). */

struct gf_plan {
    const char *obstacle; /* why the program does not load the library; NULL if it does */
    bool huge_pages_off;  /* PR_SET_THP_DISABLE is set */
    char binding[2048];   /* "" if the program does not load the library */
    char shm[512];        /* the mount of /dev/shm; "" without --shm */
};

#define PRELOAD "LD_PRELOAD"

static bool is_among(const char *entry, char *const *list)
{
    while (*list && *list != entry)
        list++;
    return *list;
}

/*
 * Prints the options that the user or this command has set, then the other variables that the command
 * sets. inherited: the entries of the environment before.
 */
static void print_variables(char *const *inherited)
{
    for (size_t i = 0; i < GF_OPTION_COUNT; i++) {
        const char *value = getenv(gf_option_rows[i].name);
        if (!value)
            continue;
        printf("%s=", gf_option_rows[i].name);
        gf_shell_word(stdout, value);
        putchar('\n');
    }
    for (char *const *entry = environ; *entry; entry++)
        if (!is_among(*entry, inherited) && strncmp(*entry, "GPUFEED", 7) != 0 &&
            strncmp(*entry, PRELOAD "=", sizeof(PRELOAD)) != 0)
            puts(*entry);
}

static void print_plain(const char *label, const char *text)
{
    GF_OWNED char *plain = gf_cli_memory(strdup(text));

    printf("%-12s%s\n", label, gf_plain_text(plain));
}

static void gf_plan_print(const struct gf_plan *plan, const char *program, char *const *command,
                          char *const *inherited)
{
    const char *preload = getenv(PRELOAD);

    print_plain("program", program);
    if (command[1])
        fputs("arguments  ", stdout);
    for (char *const *word = command + 1; *word; word++) {
        putchar(' ');
        gf_shell_word(stdout, *word);
    }
    if (command[1])
        putchar('\n');
    if (plan->obstacle)
        printf("library     not loaded: %s%s\n", plan->obstacle,
               preload && *preload ? "; child processes inherit LD_PRELOAD" : "");
    print_plain(PRELOAD, preload ? preload : "");
    print_variables(inherited);
    if (plan->huge_pages_off)
        puts("huge pages  off (PR_SET_THP_DISABLE)");
    if (*plan->binding)
        print_plain("binding", plan->binding);
    if (*plan->shm)
        print_plain("/dev/shm", plan->shm);
}

/*
 * gperftools reads this variable, whose default is 32 MiB. bench/NOTES.md has figures for both
 * values.
 */
#define TCMALLOC_CACHES_BYTES "268435456"

/*
 * Reports invalid options, and removes them so that the library does not report them again in the
 * program.
 */
static void drop_invalid_options(void)
{
    char **kept = environ;

    gf_validate_environment(environ, true, gf_cli_report, NULL);
    for (char **entry = environ; *entry; entry++)
        if (!gf_validate_rejects(*entry))
            *kept++ = *entry;
    *kept = NULL;
}

static void set_defaults(void)
{
    for (size_t i = 0; i < GF_OPTION_COUNT; i++) {
        const struct gf_option_row *row = &gf_option_rows[i];
        const char *fallback = gf_option_fallback(row, true);
        if (strcmp(fallback, row->fallback) != 0 && !getenv(row->name))
            gf_env_set(row->name, fallback);
    }
}

/*
 * Whether LD_PRELOAD contains a sanitizer's run-time, which ends the program unless it is the first
 * entry.
 */
static bool preloads_sanitizer(const char *preload)
{
    static const char *const names[] = {"libasan.so", "libtsan.so", "liblsan.so", "libhwasan.so",
                                        "libclang_rt."};

    for (size_t i = 0; preload && i < GF_ARRAY_LEN(names); i++)
        if (strstr(preload, names[i]))
            return true;
    return false;
}

/*
 * If a variable would make the program fail with the library preloaded, prints an error and returns
 * the reason. Otherwise returns NULL.
 */
static const char *find_obstacle_in_environment(const char *name)
{
    const char *audit = getenv("LD_AUDIT"), *tunables = getenv("GLIBC_TUNABLES");

    /* With LD_AUDIT, glibc reserves too little static TLS for a preloaded jemalloc. */
    if (audit && *audit && !(tunables && strstr(tunables, "glibc.rtld.optional_static_tls="))) {
        gf_cli_error("LD_AUDIT exhausts static TLS: %s runs without the library; set "
                     "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096",
                     name);
        return "LD_AUDIT exhausts static TLS";
    }
    if (preloads_sanitizer(getenv(PRELOAD))) {
        gf_cli_error(
            "the sanitizer in LD_PRELOAD must be the first entry: %s runs without the library",
            name);
        return "a sanitizer must be the first entry of LD_PRELOAD";
    }
    return NULL;
}

/*
 * Puts the library first in the program's LD_PRELOAD, or removes it: an outer `gpufeed run` or the container
 * image may have added it.
 */
static void put_preload(const char *library, bool is_wanted)
{
    GF_OWNED char *joined = gf_ld_preload_join(library, getenv(PRELOAD));
    const char *rest = joined + strlen(library);

    gf_env_set(PRELOAD, is_wanted ? joined : *rest == ':' ? rest + 1 : NULL);
}

/*
 * Puts the library first in the program's LD_PRELOAD, unless a preload cannot work. If the program
 * will not load the library, prints an error and sets *ret_why to the reason, otherwise to NULL.
 * Returns 0, or -errno if the library is missing or damaged.
 */
static int set_preload(const char *program, const char *name, const char **ret_why)
{
    char library[PATH_MAX];
    struct gf_exec_obstacle obstacle;

    *ret_why = NULL;
    const int error = gf_ld_preload_find(library, sizeof(library));
    if (error == -ENOENT)
        return gf_cli_fail(
            error,
            "libgpufeed.so is not in %s, relative to this command's folder: install it "
            "again, or copy the whole folder of the bundle",
            GF_LIBDIR_FROM_BINDIR);
    if (error) {
        gf_cli_error("%s: LD_PRELOAD cannot hold a path with a blank, a colon or a dollar sign; "
                     "%s runs without the library; `gpufeed preload-path` shows what to do",
                     library, name);
        *ret_why = "LD_PRELOAD cannot hold its path";
        return 0;
    }
    const char *fault = gf_elf_fault(library);
    if (fault)
        return gf_cli_fail(-ENOEXEC, "cannot preload %s: %s; install it again", library, fault);
    *ret_why = find_obstacle_in_environment(name);
    if (*ret_why) {
        put_preload(library, false);
        return 0;
    }
    gf_exec_target_inspect(program, &obstacle);
    if (obstacle.why)
        gf_cli_error("%s is %s, so a preload cannot work: the program runs without the library",
                     name, obstacle.why);
    *ret_why = obstacle.why;
    put_preload(library, !obstacle.why || obstacle.harmless);
    return 0;
}

static void format_prebind(const struct gf_prebind *prebind, char *buf, size_t size)
{
    const struct gf_prediction *prediction = &prebind->prediction;
    const struct gf_verdict *verdict = &prebind->verdict;

    if (!prebind->known)
        snprintf(buf, size, "not bound before the start: %s", prediction->why);
    else if (verdict->bound == gf_bound_none || verdict->bound == gf_bound_submitters)
        snprintf(buf, size, "not bound before the start: %s", verdict->reason);
    else
        snprintf(buf, size, "GPU %s%s (%s): %s, CPUs %s, memory: %s%s%s", prediction->gpus[0].bdf,
                 prediction->count > 1 ? " and others" : "", prediction->why,
                 gf_bound_name(verdict->bound), gf_set_text(&verdict->cpus, 1024),
                 verdict->policy_reason, *prebind->note ? "; " : "", prebind->note);
}

/*
 * Binds this process, unless `dry`, and describes the binding in the plan. Prints the binding only
 * at GPUFEED_VERBOSE=2 or after a failure, because the library later reports the binding that it
 * reads back from the kernel.
 */
static void bind_before_exec(bool dry, struct gf_plan *plan)
{
    static struct gf_options options;
    static struct gf_prebind prebind;
    struct gf_cpus start;

    gf_options_load(&options, environ);
    const bool has_start = gf_tasks_get_mask(0, &start) == 0;
    plan->huge_pages_off = options.huge_pages == gf_huge_pages_off;
    if (!dry && plan->huge_pages_off && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
        gf_cli_error("GPUFEED_HUGE_PAGES=off has no effect: prctl(PR_SET_THP_DISABLE): %s",
                     strerror(errno));
    gf_prebind_apply(&options, dry, &prebind);
    format_prebind(&prebind, plan->binding, sizeof(plan->binding));
    if (options.tcmalloc == gf_tcmalloc_tune && !getenv(GF_LAUNCH_TCMALLOC_CACHES))
        gf_env_set(GF_LAUNCH_TCMALLOC_CACHES, TCMALLOC_CACHES_BYTES);
    if (options.omp == gf_omp_auto && has_start)
        gf_thread_count_apply(&start, prebind.known);
    if (!dry && (options.verbose >= 2 || (*prebind.note && options.verbose >= 1)))
        gf_cli_error("%s", plan->binding);
}

/*
 * Carries out --shm=huge, or only describes it in the plan. If that fails, prints why, and the program
 * runs with the present mount. Returns false for a rank of several, after an error.
 */
static bool mount_shm(char *const *command, bool dry, struct gf_plan *plan)
{
    const char *verbose = getenv("GPUFEED_VERBOSE");
    const enum gf_shm result = gf_shm_mount(command, dry, plan->shm, sizeof(plan->shm));

    if (result == gf_shm_ranks)
        return gf_cli_fail(false,
                           "--shm=huge would separate this rank from the other ranks on this host: "
                           "use `gpufeed run --shm=huge` to start the launcher");
    if (result == gf_shm_failed)
        gf_cli_error("--shm=huge has no effect: %s", plan->shm);
    else if (!dry && verbose && strcmp(verbose, "2") == 0)
        gf_cli_error("/dev/shm: %s", plan->shm);
    return true;
}

/* Reports why the program cannot run. Returns the same exit code as env(1). */
static int report_not_run(const char *name, const char *program, int error)
{
    char lacking[PATH_MAX];

    if (error == ENOENT && *program && gf_exec_target_lacks(program, lacking, sizeof(lacking))) {
        /* Shows a carriage return as "\r", because a terminal does not show it. */
        const size_t length = strcspn(lacking, "\r");
        const bool has_cr = lacking[length];
        lacking[length] = '\0';
        gf_cli_error("cannot run %s: its interpreter %s%s does not exist%s", name, lacking,
                     has_cr ? "\\r" : "", has_cr ? "; the lines of the script end in CR LF" : "");
    } else if (error == ENOENT && *name && !strchr(name, '/')) {
        gf_cli_error("cannot run %s: not found in PATH", name);
    } else {
        gf_cli_error("cannot run %s: %s", *name ? name : "\"\"", strerror(error));
    }
    return error == ENOENT ? GF_EXIT_NOT_FOUND : GF_EXIT_CANNOT_RUN;
}

/* The flags of `gpufeed run`. Each row of options.def has a flag, which sets the row's variable. */
struct gf_run_flags {
    bool help;
    bool print;
    bool init;   /* fork, and stay as the program's init */
    bool shm;    /* mount a private /dev/shm */
    int command; /* index in argv of the program to run; argc if absent */
};

/*
 * Values of flags in getopt's table. The flag for row i of options.def has the value FLAG_OPTION +
 * i.
 */
enum { FLAG_PRINT = 1, FLAG_INIT, FLAG_SHM, FLAG_OPTION = 256 };

static const struct option *make_table(void)
{
    static char names[GF_OPTION_COUNT][GF_OPTION_FLAG_MAX];
    static struct option table[GF_OPTION_COUNT + 5];
    size_t count = 0;

    for (size_t i = 0; i < GF_OPTION_COUNT; i++)
        table[count++] =
            (struct option){gf_option_flag(&gf_option_rows[i], names[i], sizeof(names[i])),
                            required_argument, NULL, FLAG_OPTION + (int)i};
    table[count++] = (struct option){"help", no_argument, NULL, GF_FLAG_HELP};
    table[count++] = (struct option){"init", no_argument, NULL, FLAG_INIT};
    table[count++] = (struct option){"print", no_argument, NULL, FLAG_PRINT};
    table[count++] = (struct option){"shm", required_argument, NULL, FLAG_SHM};
    return table;
}

static int report_missing_value(const struct option *flag)
{
    char allowed[256] = "huge";

    if (flag->val != FLAG_SHM)
        gf_option_text_allowed(&gf_option_rows[flag->val - FLAG_OPTION], false, allowed,
                               sizeof(allowed));
    return gf_cli_fail(-EINVAL, "--%s needs a value; allowed: %s", flag->name, allowed);
}

static int set_option(const struct option *flag, const char *value)
{
    const struct gf_option_row *row = &gf_option_rows[flag->val - FLAG_OPTION];
    char mistake[256];

    if (gf_option_check(row, value))
        return gf_cli_fail(-EINVAL, "--%s=%.80s %s", flag->name, value,
                           gf_validate_value(row, value, mistake, sizeof(mistake)));
    gf_env_set(row->name, value);
    return 0;
}

/*
 * Reads argv[1..] up to "--" or the first operand, and sets the flags' variables. Returns 0, or -EINVAL
 * after printing one line on standard error.
 */
static int read_flags(int argc, char **argv, struct gf_run_flags *ret)
{
    struct gf_flags reader = {.argc = argc, .argv = argv, .flags = make_table()};
    int code;

    *ret = (struct gf_run_flags){0};
    while ((code = gf_flags_next(&reader)) != GF_FLAG_END) {
        if (code == GF_FLAG_HELP)
            ret->help = true;
        else if (code == FLAG_PRINT)
            ret->print = true;
        else if (code == FLAG_INIT)
            ret->init = true;
        else if (code == FLAG_SHM && strcmp(optarg, "huge") == 0)
            ret->shm = true;
        else if (code == FLAG_SHM)
            return gf_cli_fail(-EINVAL, "--shm=%.80s is not valid; allowed: huge", optarg);
        else if (code == GF_FLAG_NO_VALUE)
            return report_missing_value(reader.flag);
        else if (code == GF_FLAG_INVALID || set_option(reader.flag, optarg))
            return -EINVAL;
    }
    ret->command = reader.at;
    if (ret->command < argc && strcmp(argv[ret->command], "-") == 0 &&
        strcmp(argv[ret->command - 1], "--") != 0)
        return gf_cli_fail(-EINVAL, "- is not a flag; `gpufeed run --help` lists them");
    return 0;
}

static void print_option(const struct gf_option_row *row, unsigned width)
{
    char flag[GF_OPTION_FLAG_MAX], form[256], about[1024];

    printf("  --%s=%s\n", gf_option_flag(row, flag, sizeof(flag)),
           gf_option_text_allowed(row, true, form, sizeof(form)));
    snprintf(about, sizeof(about), "%s: %s (default: %s). %s", row->name, row->help,
             *row->fallback ? row->fallback : "none", row->text);
    gf_wrap("", about, 6, width);
}

static void print_run_help(void)
{
    const unsigned width = gf_wrap_width();
    size_t section = 0;

    fputs("Usage: gpufeed run [flags] [--] COMMAND [ARGUMENT...]\n\n", stdout);
    gf_wrap("",
            "Runs COMMAND with libgpufeed preloaded. If it is certain which GPU COMMAND will use, "
            "`gpufeed run` binds the process before COMMAND starts. Each flag below names the "
            "environment variable that it sets; setting the variable has the same effect.",
            0, width);
    fputs("\n  --print\n      show what `gpufeed run` would do, without running COMMAND\n"
          "  --init\n      stay as a container's init: forward signals to COMMAND, reap orphans\n"
          "  --shm=huge\n      mount a private /dev/shm with huge pages for COMMAND\n"
          "  -h, --help\n      show this help\n",
          stdout);
    for (size_t i = 0; i < GF_OPTION_COUNT; i++) {
        if (section < gf_option_section_count && gf_option_sections[section].first == i)
            printf("\n%s\n", gf_option_sections[section++].title);
        print_option(&gf_option_rows[i], width);
    }
    putchar('\n');
    gf_wrap("",
            "Exit code: the exit code of COMMAND; 2 if a flag is not valid, or if --shm=huge would "
            "separate ranks, 126 if COMMAND cannot be run, 127 if COMMAND is not found, 1 if the "
            "library is not found. If GPUFEED_VERBOSE is not set, `gpufeed run` sets it to 1.",
            0, width);
}

int gf_cmd_run(int argc, char **argv)
{
    struct gf_run_flags flags;
    char program[PATH_MAX];
    struct gf_plan plan = {0};
    struct sigaction bus_error;
    sigset_t mask;
    char *const *inherited = environ; /* what gf_env_set adds is in a copy of this list */

    if (read_flags(argc, argv, &flags))
        return GF_EXIT_USAGE;
    if (flags.help) {
        print_run_help();
        return GF_EXIT_OK;
    }
    if (flags.command == argc)
        return gf_cli_fail(GF_EXIT_USAGE, "no command to run: gpufeed run [flags] -- COMMAND");
    int code;
    if (flags.init && !flags.print && !gf_init_fork(&code))
        return code;
    char **command = argv + flags.command;
    drop_invalid_options();
    const int missing = gf_exec_target_find(command[0], getenv("PATH"), program, sizeof(program));
    if (missing)
        return report_not_run(command[0], "", -missing);
    set_defaults();
    sigaction(SIGBUS, NULL, &bus_error);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    gf_bus_error_survive(); /* the program's file is mapped */
    if (set_preload(program, command[0], &plan.obstacle))
        return GF_EXIT_FAILED;
    gf_env_set(GF_NAME_RUN, gf_text("%d", getpid()));
    if (!plan.obstacle)
        bind_before_exec(flags.print, &plan);
    if (flags.shm && !mount_shm(command, flags.print, &plan))
        return GF_EXIT_USAGE;
    if (flags.print) {
        gf_plan_print(&plan, program, command, inherited);
        return GF_EXIT_OK;
    }
    sigaction(SIGBUS, &bus_error, NULL);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    execvp(command[0], command);
    const int error = errno;
    gf_bus_error_survive();
    return report_not_run(command[0], program, error);
}
