/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a running process's GPU states, hooked calls and copies, from the library's report. */
#include "base/clock.h"
#include "base/parse.h"
#include "host/tasks.h"
#include "tools/answer/parts.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/run/program_start.h"
#include "tools/top/top.h"

#include <limits.h>
#include <signal.h>
#include <time.h>

#define TRIES 20
#define HOOKS 6 /* the most hooks that are printed */
/* The most that are printed of a GPU's states and of GPUs; a report of another user may list more. */
#define STATES 16
#define GPUS 64
#define MIB (double)(1 << 20)

static void print_gpus(const json_t *report)
{
    json_t *gpu;
    size_t i;

    json_array_foreach(json_object_get(report, "gpus"), i, gpu)
        if (i < GPUS)
            printf("  GPU %.0f: %s %s\n", gf_report_number(gpu, "device"),
                   gf_report_text(gpu, "name", 128), gf_report_text(gpu, "pci", 32));
    if (json_is_true(gf_report_at(report, "binding.in_force")))
        printf("  threads are bound to CPUs %s\n", gf_report_text(report, "binding.cpus", 256));
    if (json_is_integer(gf_report_at(report, "steps.current")))
        printf("  step %.0f is in progress\n", gf_report_number(report, "steps.current"));
}

/* How much a number of a report has grown; `before` may be NULL. */
static double growth(const json_t *before, const json_t *now, const char *path)
{
    return gf_report_number(now, path) - gf_report_number(before, path);
}

/* Finds a device in an earlier report; NULL if absent. */
static const json_t *device_of(const json_t *report, int number)
{
    const json_t *devices = gf_report_at(report, "gpu_time.devices");
    json_t *device;
    size_t i;

    json_array_foreach(devices, i, device) {
        if (i == GPUS)
            break;
        if ((int)gf_report_number(device, "device") == number)
            return device;
    }
    return NULL;
}

/* Prints the shares of a GPU's states between two reports; `before` may be NULL. */
static void print_states(const json_t *before, const json_t *now)
{
    const char *name;
    json_t *device, *state;
    size_t i;

    json_array_foreach(gf_report_at(now, "gpu_time.devices"), i, device) {
        if (i == GPUS)
            break;
        const int number = (int)gf_report_number(device, "device");
        const json_t *past = json_object_get(device_of(before, number), "states");
        json_t *states = json_object_get(device, "states");
        double all = 0;
        json_object_foreach(states, name, state)
            all += growth(json_object_get(past, name), state, "s");
        if (all <= 0)
            continue;
        unsigned printed = 0;
        printf("    GPU %d: ", number);
        json_object_foreach(states, name, state) {
            const double s = growth(json_object_get(past, name), state, "s");
            if (s <= 0 || printed == STATES)
                continue;
            printf("%s%s %.0f %%", printed++ ? ", " : "",
                   gf_help_words(gf_help_state, gf_report_plain(name, 32)), 100 * s / all);
        }
        puts("");
    }
}

static void print_live_copies(const json_t *before, const json_t *now)
{
    for (size_t i = 0; i < GF_DIRECTIONS; i++)
        for (size_t k = 0; k < GF_WAYS; k++) {
            const char *way = gf_way_names[k];
            const char *sum = gf_text("transfers.%s.%s", gf_direction_names[i], way);
            const json_t *last = gf_report_at(now, sum), *past = gf_report_at(before, sum);
            if (growth(past, last, "calls") > 0)
                printf("    copies %s the GPU (%s): %.0f, %.1f MiB\n", i == 0 ? "to" : "from", way,
                       growth(past, last, "calls"), growth(past, last, "bytes") / MIB);
        }
}

/* Prints the hooks with the most calls between two reports; `before` may be NULL. */
static void print_hooks(const json_t *before, const json_t *now)
{
    struct hook {
        const char *name;
        double calls;
    } most[HOOKS] = {{0}};
    const json_t *past = json_object_get(before, "hooks");
    json_t *value;
    const char *name;

    json_object_foreach(json_object_get(now, "hooks"), name, value) {
        struct hook hook = {name, json_number_value(value) -
                                      json_number_value(json_object_get(past, name))};
        for (size_t i = 0; i < HOOKS; i++)
            if (hook.calls > most[i].calls) {
                const struct hook fewer = most[i];
                most[i] = hook;
                hook = fewer;
            }
    }
    printf("    hooked calls:%s", most[0].name ? "" : " none");
    for (size_t i = 0; i < HOOKS && most[i].name; i++)
        printf("%s %s %.0f", i ? "," : "", gf_report_plain(most[i].name, 64), most[i].calls);
    puts("");
}

static void print_changes(const json_t *before, const json_t *now)
{
    print_states(before, now);
    print_live_copies(before, now);
    print_hooks(before, now);
}

/* Waits for a report that is newer than `before`. */
static void await_next(pid_t pid, const struct gf_snapshot *before, struct gf_snapshot *ret)
{
    *ret = (struct gf_snapshot){.pid = pid, .source = gf_snapshot_none};
    for (int i = 0; i < TRIES; i++) {
        gf_sleep_ns(100000000);
        gf_snapshot_read(pid, ret);
        if (growth(before->report, ret->report, "ran_s") > 0)
            return;
        json_decref(ret->report);
        ret->report = NULL;
    }
}

static void print_report(pid_t pid, const struct gf_snapshot *first)
{
    const double age = (double)time(NULL) - gf_report_number(first->report, "written_at");
    struct gf_snapshot next = {0};

    if (first->source == gf_snapshot_live)
        await_next(pid, first, &next);
    const json_t *now = next.report ? next.report : first->report;
    printf("libgpufeed in process %d", pid);
    if (!next.report)
        printf(" (%s, %.0f s old)", first->source == gf_snapshot_live ? "figures" : "report file",
               age > 0 ? age : 0);
    puts(":");
    print_gpus(now);
    if (next.report) {
        printf("  in the last %.1f s:\n", growth(first->report, next.report, "ran_s"));
        print_changes(first->report, next.report);
    }
    printf("  in %.0f s since the first use of CUDA:\n", gf_report_number(now, "ran_s"));
    print_changes(NULL, now);
    json_decref(next.report);
}

/*
 * Prints the state of a process, if the engine is loaded in it. With GPUFEED_LIVE=on, waits up to
 * two seconds for newer figures, so that the state includes the changes of the last second.
 */
static void gf_live_state_print(const void *closure)
{
    const pid_t pid = *(const pid_t *)closure;
    struct gf_snapshot snapshot;

    if (gf_snapshot_check(pid) != 0)
        return;
    gf_snapshot_read(pid, &snapshot);
    if (snapshot.report)
        print_report(pid, &snapshot);
    else if (snapshot.source == gf_snapshot_newer)
        printf("libgpufeed in process %d is of a later version; use the gpufeed command of that "
               "version\n",
               pid);
    else
        printf("libgpufeed in process %d has no figures yet, or they cannot be read%s\n", pid,
               snapshot.is_wanted ? "" : "; set GPUFEED_LIVE=on");
    puts("");
    json_decref(snapshot.report);
}

#define PROGRAM "gpufeed-stacks"
/* Reading the state takes 2 s. The report file may be on a mount that hangs. */
#define STATE_MS 6000

enum { flag_children = 'c', flag_helper = 'p' /* a flag of the helper program */ };

static const struct option flag_table[] = {
    {"children", no_argument, NULL, flag_children}, {"python", no_argument, NULL, flag_helper},
    {"all", no_argument, NULL, flag_helper},        {"json", no_argument, NULL, flag_helper},
    {"help", no_argument, NULL, GF_FLAG_HELP},      {0},
};
#define HELPERS_MOST 16 /* words of flags */
#define PROCESSES_MOST 1024

struct words {
    const char *operand;
    bool children, json;
    char *helpers[HELPERS_MOST];
    unsigned helper_count;
};

static void print_stacks_help(void)
{
    puts("Usage: gpufeed stacks [--children] [--python] [--all] [--json] PID|JOB\n\n"
         "Prints the Python and native stacks of every thread of a running process, or of\n"
         "the processes of the job JOB (such as SLURM_JOB_ID) in which the library is\n"
         "active, with its state, its system call and the CPUs that it may use. Processes\n"
         "are stopped one after another, each for some milliseconds, and for 3 seconds at\n"
         "most; the measured time is printed. What was not read by then is named. A\n"
         "process need not run with the library. Python frames are shown for CPython 3.9\n"
         "to 3.15, names of Python's threads for 3.11 to 3.13. If PID uses the library,\n"
         "its GPUs, copies and hooked calls are printed first; with GPUFEED_LIVE=on, also\n"
         "the copies and calls of the last second.\n\n"
         "  --children\n"
         "      also show the children, and theirs, such as the workers of a loader\n"
         "  --python\n"
         "      show only Python frames, and only threads that have some\n"
         "  --all\n"
         "      also show threads without Python frames whose names are those of the\n"
         "      driver's threads (cuda...) and of the library's (gpufeed...)\n"
         "  --json\n"
         "      print the stacks of all threads as JSON\n"
         "  -h, --help\n"
         "      show this help\n\n"
         "The kernel must permit tracing the process. In a container, this needs the\n"
         "capability SYS_PTRACE; on a host with kernel.yama.ptrace_scope=1, it needs sudo.\n\n"
         "Exit code: 0; 1 if no process can be read; 2 if the command line is not valid.");
}

static int read_stacks_flag(void *closure, int code, const struct gf_flags *reader)
{
    struct words *ret = closure;

    ret->children |= code == flag_children;
    if (code == flag_helper && ret->helper_count < HELPERS_MOST) {
        ret->json |= strcmp(reader->flag->name, "json") == 0;
        ret->helpers[ret->helper_count++] = reader->argv[reader->at - 1];
    }
    return GF_EXIT_OK;
}

static int read_stacks_operand(void *closure, const char *text)
{
    struct words *ret = closure;

    if (ret->operand)
        return gf_flags_excess(text);
    ret->operand = text;
    return GF_EXIT_OK;
}

/* The processes to show. */
struct shown {
    pid_t pids[PROCESSES_MOST];
    unsigned count, dropped;
};

static void add_shown(void *closure, pid_t pid)
{
    struct shown *shown = closure;

    for (unsigned i = 0; i < shown->count; i++)
        if (shown->pids[i] == pid)
            return;
    if (shown->count == PROCESSES_MOST)
        shown->dropped++;
    else
        shown->pids[shown->count++] = pid;
}

static void add_children(void *closure, int task, pid_t tid)
{
    gf_tasks_children(task, tid, add_shown, closure);
}

/* Returns whether the operand is the id of a process, and not that of a job. */
static bool find_processes(const struct words *words, struct shown *ret)
{
    static struct gf_found found;
    uint64_t pid;
    const bool is_number = !gf_parse_u64(words->operand, &pid) && pid && pid <= INT_MAX;
    const bool is_pid = is_number && (kill((pid_t)pid, 0) == 0 || errno != ESRCH);

    if (is_pid)
        add_shown(ret, (pid_t)pid);
    else if (gf_snapshot_find(words->operand, &found))
        return false;
    if (found.silent_count)
        gf_cli_error("%s, and may be of the job", gf_found_name_silent(&found));
    for (size_t i = 0; i < found.count; i++)
        add_shown(ret, found.pids[i]);
    for (unsigned i = 0; words->children && i < ret->count; i++)
        gf_tasks_each(ret->pids[i], add_children, ret);
    if (!ret->count)
        gf_cli_error(is_number ? "there is no process %s, and no process of such a job"
                               : "no process of a job %s uses libgpufeed now",
                     words->operand);
    if (ret->dropped)
        gf_cli_error("%u more processes are not shown", ret->dropped);
    return is_pid;
}

static int run_helper(const struct words *words, const struct shown *shown)
{
    char folder[PATH_MAX], path[PATH_MAX + sizeof(PROGRAM) + 1], numbers[PROCESSES_MOST][12];
    char program[] = PROGRAM, *argv[1 + HELPERS_MOST + PROCESSES_MOST + 1] = {program};
    unsigned count = 1;

    for (unsigned i = 0; i < words->helper_count; i++)
        argv[count++] = words->helpers[i];
    for (unsigned i = 0; i < shown->count; i++) {
        snprintf(numbers[i], sizeof(numbers[i]), "%d", shown->pids[i]);
        argv[count++] = numbers[i];
    }
    if (gf_own_folder(folder, sizeof(folder)) == 0) {
        snprintf(path, sizeof(path), "%s/" PROGRAM, folder);
        execv(path, argv);
    }
    return gf_cli_fail(GF_EXIT_FAILED, "cannot start " PROGRAM " in the folder of this command: %s",
                       strerror(errno));
}

int gf_cmd_stacks(int argc, char **argv)
{
    static const struct gf_words reading = {print_stacks_help, read_stacks_flag,
                                            read_stacks_operand, false};
    static struct shown shown;
    struct gf_flags reader = {.argc = argc, .argv = argv, .flags = flag_table};
    struct words words = {.operand = NULL};
    int code;

    if (!gf_flags_read(&reader, &reading, &words, &code))
        return code;
    if (!words.operand)
        return gf_cli_fail(GF_EXIT_USAGE, "no process to show: gpufeed stacks PID");
    const bool is_pid = find_processes(&words, &shown);
    if (!shown.count)
        return GF_EXIT_FAILED;
    if (is_pid && !words.json && gf_print_apart(gf_live_state_print, &shown.pids[0], STATE_MS))
        gf_cli_error("the figures of process %d cannot be read in time", shown.pids[0]);
    fflush(stdout);
    return run_helper(&words, &shown);
}
