/* SPDX-License-Identifier: Apache-2.0 */
/* `gpufeed top --json`. docs/top.md describes the fields. */
#include "base/parse.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/top/top.h"

#include <limits.h>
#include <signal.h>
#include <time.h>

static const char *source_name(enum gf_snapshot_source source)
{
    return source == gf_snapshot_live    ? "live"
           : source == gf_snapshot_file  ? "report_file"
           : source == gf_snapshot_newer ? "later_version"
                                         : NULL;
}

/* Returns a process as an object, or NULL if memory is short. The caller drops the reference. */
static json_t *gf_top_json_row(const struct gf_snapshot *snapshot,
                               const struct gf_top_history *history)
{
    struct gf_process_figures figures;

    if (!snapshot->report)
        return json_pack("{s:i,s:o}", "pid", snapshot->pid, "source",
                         gf_json_text(source_name(snapshot->source)));
    gf_process_figures_read(snapshot, history, &figures);
    return json_pack("{s:i,s:o,s:o,s:f,s:f,s:o,s:o,s:o,s:f,s:f,s:f,s:o,s:b,s:o,s:o,s:i,s:i}", "pid",
                     snapshot->pid, "source", gf_json_text(source_name(snapshot->source)), "rank",
                     figures.rank < 0 ? json_null() : json_integer(figures.rank), "ran_s",
                     figures.ran_s, "steps_per_s", figures.steps, "detected_steps_per_s",
                     gf_json_number(figures.detected_steps, figures.detected_steps >= 0),
                     "idle_share", gf_json_number(figures.idle, figures.idle >= 0), "idle_cause",
                     gf_json_text(figures.idle_cause), "to_device_bytes_per_s", figures.to_device,
                     "from_device_bytes_per_s", figures.from_device, "stalled_share",
                     figures.stalled, "stall_cause", gf_json_text(figures.stall_cause), "bound",
                     figures.is_bound, "gpu", gf_json_text(figures.gpu), "command",
                     gf_json_text(snapshot->command), "workers", (int)history->workers,
                     "workers_asleep", (int)history->asleep);
}

#define MIB (double)(1 << 20)

/* Removes the folder of the program from a command line. */
static const char *without_folder(const char *command)
{
    const char *ret = command;

    for (const char *p = command; *p && *p != ' '; p++)
        if (*p == '/')
            ret = p + 1;
    return ret;
}

static const char *time_text(double seconds)
{
    const unsigned long all = seconds > 0 && seconds < 1e9 ? (unsigned long)seconds : 0;
    return gf_text("%lu:%02lu:%02lu", all / 3600, all / 60 % 60, all % 60);
}

static void print_figures(const struct gf_snapshot *snapshot, const struct gf_top_history *history,
                          unsigned width)
{
    const bool fits_gpu = gf_columns_fit_gpu(width);
    struct gf_process_figures figures;
    const char *workers = "";

    gf_process_figures_read(snapshot, history, &figures);
    const double steps = figures.marks_steps ? figures.steps : figures.detected_steps;
    const char *const cells[] = {
        [gf_column_pid] = gf_text("%d", snapshot->pid),
        [gf_column_rank] = figures.rank < 0 ? "-" : gf_text("%ld", figures.rank),
        [gf_column_ran] = time_text(figures.ran_s),
        [gf_column_steps] = steps < 0 ? "-" : gf_text("%.1f", steps),
        [gf_column_idle] = figures.idle < 0 ? "-" : gf_text("%.1f%%", 100 * figures.idle),
        [gf_column_why_idle] = *figures.idle_cause ? figures.idle_cause : "-",
        [gf_column_to_gpu] = gf_text("%.0f", figures.to_device / MIB),
        [gf_column_from_gpu] = gf_text("%.0f", figures.from_device / MIB),
        [gf_column_stalled] = gf_text("%.1f%%", 100 * figures.stalled),
        [gf_column_most_time] = *figures.stall_cause ? figures.stall_cause : "-",
        [gf_column_bound] = figures.is_bound ? "yes" : "no",
    };
    if (history->workers)
        workers = gf_text("(+%u worker%s, %u asleep) ", history->workers,
                          history->workers == 1 ? "" : "s", history->asleep);
    gf_columns_print(cells,
                     gf_text("%s%s%s%s%s",
                             snapshot->source == gf_snapshot_file ? "(report file) " : "", workers,
                             fits_gpu ? figures.gpu : "", fits_gpu && *figures.gpu ? ", " : "",
                             fits_gpu ? snapshot->command : without_folder(snapshot->command)),
                     width);
}

/*
 * Prints the line of a process, with rates between the two reports of the history. `snapshot`
 * contains the later report. width: see tools/top/screen.h.
 */
static void gf_top_row_print(const struct gf_snapshot *snapshot,
                             const struct gf_top_history *history, unsigned width)
{
    if (snapshot->report) {
        print_figures(snapshot, history, width);
        return;
    }
    char *line =
        gf_text("%7d  %s%s", snapshot->pid,
                snapshot->source == gf_snapshot_newer
                    ? "has a later version of the library; use the gpufeed command of that version"
                    : "has no figures yet, or they cannot be read",
                snapshot->source == gf_snapshot_newer || snapshot->is_wanted
                    ? ""
                    : "; set GPUFEED_LIVE=on or GPUFEED_REPORT");
    gf_columns_print_line(line, width);
}

#define PERIOD_MS 1000
#define ANCESTORS_MOST 16
#define GF_TOP_SCHEMA 1 /* a new field does not change it */

static const struct option flag_table[] = {
    {"count", required_argument, NULL, 'n'},
    {"json", no_argument, NULL, 'j'},
    {"help", no_argument, NULL, GF_FLAG_HELP},
    {0},
};

struct words {
    uint64_t count;      /* number of screens; UINT64_MAX: until the user quits; 0: not given */
    const char *operand; /* NULL: all processes */
    pid_t only;          /* the process that `operand` names; 0: `operand` names a job */
    bool json;
};

static void print_top_help(void)
{
    puts("Usage: gpufeed top [-n N] [--json] [PID|JOB]\n\n"
         "Shows the running processes of this user in which the library is active, the\n"
         "process PID, or those of the job JOB (such as SLURM_JOB_ID): rank, time since\n"
         "the first use of CUDA, steps (gpufeed_set_step), share of time in which the GPU\n"
         "had nothing to do and its main cause, copies, share of time in stalls and their\n"
         "main cause, and whether threads are bound.\n"
         "The first screen shows rates since the start; each later one, rates since the\n"
         "previous screen.\n"
         "With GPUFEED_LIVE=on, a process updates its figures each second. Without it, top\n"
         "shows the report file (GPUFEED_REPORT), which is updated less often.\n\n"
         "  -n, --count N\n"
         "      end after N screens; without it, q quits. 1 prints once.\n"
         "  --json\n"
         "      print a line of JSON instead of each screen; N is 1 unless given\n"
         "  -h, --help\n"
         "      show this help\n\n"
         "Exit code: 0; 1 if PID does not exist, cannot be read or does not use the\n"
         "library, or if no process of JOB uses it; 2 if the command line is not valid.");
}

static int read_operand(void *closure, const char *text)
{
    struct words *ret = closure;
    uint64_t pid;

    if (ret->operand)
        return gf_flags_excess(text);
    ret->operand = text;
    ret->only = gf_parse_u64(text, &pid) || pid > INT_MAX ? 0 : (pid_t)pid;
    return GF_EXIT_OK;
}

static int read_flag(void *closure, int code, const struct gf_flags *reader)
{
    struct words *ret = closure;

    (void)reader;
    if (code == GF_FLAG_NO_VALUE)
        return gf_cli_fail(GF_EXIT_USAGE, "-n needs a value; see `gpufeed help top`");
    if (code == 'j')
        ret->json = true;
    else if (gf_parse_u64(optarg, &ret->count) || !ret->count)
        return gf_cli_fail(GF_EXIT_USAGE,
                           "%.40s is not a number of screens; see `gpufeed help top`", optarg);
    return GF_EXIT_OK;
}

static int check_process(pid_t pid)
{
    const int error = gf_snapshot_check(pid);

    if (error == -ENOENT && (kill(pid, 0) == 0 || errno != ESRCH))
        gf_cli_error("process %d does not use libgpufeed, or has not used CUDA yet", pid);
    else if (error == -ETIMEDOUT)
        gf_cli_error("process %d does not answer in time", pid);
    else if (error)
        gf_cli_error("cannot read process %d: %s", pid,
                     error == -ENOENT ? "no such process" : strerror(-error));
    return error;
}

#define SILENT_NAMED 8

const char *gf_found_name_silent(const struct gf_found *found)
{
    const size_t count = found->silent_count, named = gf_min(count, (size_t)SILENT_NAMED);
    const char *text = count > 1 ? "processes " : "process ";

    for (size_t i = 0; i < named; i++)
        text = gf_text("%s%s%d", text, i ? ", " : "", found->silent[i]);
    if (count > named)
        text = gf_text("%s and %zu more", text, count - named);
    return count ? gf_text("%s %s not read in time", text, count > 1 ? "were" : "was") : "";
}

/*
 * Decides whether the operand names a process or a job. A number that is no process's id may be the
 * id of a job. Returns 0, or -errno after printing why nothing can be shown.
 */
static int check_operand(struct words *words)
{
    static struct gf_found found;

    if (words->only && (kill(words->only, 0) == 0 || errno != ESRCH))
        return check_process(words->only);
    const int error = gf_snapshot_find(words->operand, &found);
    if (error)
        return error;
    if (found.count) {
        words->only = 0;
        return 0;
    }
    if (words->only)
        return check_process(words->only);
    const char *silent = gf_found_name_silent(&found);
    return gf_cli_fail(-ENOENT, "no process of a job %.40s uses libgpufeed now%s%s%s",
                       words->operand, *silent ? "; " : "", silent,
                       found.unreadable ? "; processes of other users cannot be read" : "");
}

struct picture {
    struct gf_found found;
    unsigned workers[GF_FOUND_MOST], asleep[GF_FOUND_MOST]; /* of each process */
    struct gf_top_history history[GF_FOUND_MOST];
    size_t kept; /* number of elements of history */
};

static struct gf_top_history find_history(const struct picture *picture, pid_t pid)
{
    for (size_t i = 0; i < picture->kept; i++)
        if (picture->history[i].pid == pid)
            return picture->history[i];
    return (struct gf_top_history){.pid = pid};
}

/* Called for each process of a picture, in order. */
typedef void show_fn(void *closure, const struct gf_snapshot *snapshot,
                     const struct gf_top_history *history);

static void read_picture(struct picture *picture, show_fn *show, void *closure)
{
    static struct gf_top_history now[GF_FOUND_MOST];
    struct gf_snapshot snapshot;

    for (size_t i = 0; i < picture->found.count; i++) {
        now[i] = find_history(picture, picture->found.pids[i]);
        gf_snapshot_read_apart(picture->found.pids[i], NULL, &snapshot);
        gf_process_figures_add(&now[i], &snapshot);
        now[i].workers = picture->workers[i];
        now[i].asleep = picture->asleep[i];
        show(closure, &snapshot, &now[i]);
        json_decref(snapshot.report);
    }
    memcpy(picture->history, now, sizeof(now));
    picture->kept = picture->found.count;
}

static void show_row(void *closure, const struct gf_snapshot *snapshot,
                     const struct gf_top_history *history)
{
    gf_top_row_print(snapshot, history, *(unsigned *)closure);
}

static void draw(struct picture *picture)
{
    unsigned width = gf_screen_width();

    gf_columns_print_header(width);
    read_picture(picture, show_row, &width);
    if (!picture->found.count)
        printf("No process of this user uses libgpufeed now%s.\n",
               picture->found.unreadable ? ", and processes of other users cannot be read" : "");
    if (picture->found.dropped)
        printf("%zu more processes are not shown; `gpufeed top PID` shows one of them.\n",
               picture->found.dropped);
    if (picture->found.silent_count)
        printf("Not shown: %s.\n", gf_found_name_silent(&picture->found));
}

static void add_row(void *closure, const struct gf_snapshot *snapshot,
                    const struct gf_top_history *history)
{
    json_array_append_new(closure, gf_top_json_row(snapshot, history));
}

static void print_json(struct picture *picture)
{
    const struct gf_found *found = &picture->found;
    json_t *rows = json_array(), *all;

    read_picture(picture, add_row, rows);
    all = json_pack("{s:i,s:o,s:I,s:o}", "schema", GF_TOP_SCHEMA, "processes", rows, "not_shown",
                    (json_int_t)found->dropped, "not_read",
                    GF_JSON_LIST(i, gf_min(found->silent_count, (size_t)GF_FOUND_MOST),
                                 json_integer(found->silent[i])));
    if (all && json_dumpf(all, stdout, JSON_COMPACT) == 0)
        putchar('\n');
    json_decref(all);
}

/*
 * Returns the index of the nearest ancestor in the list; -1 if the list has no ancestor, or if the CPU
 * time of this process (clock) has reached `until`.
 */
static int find_ancestor(const struct picture *picture, pid_t parent, clock_t until)
{
    bool runs;

    for (unsigned i = 0; i < ANCESTORS_MOST && parent > 1 && clock() < until; i++) {
        for (size_t k = 0; k < picture->found.count; k++)
            if (picture->found.pids[k] == parent)
                return (int)k;
        if (!gf_snapshot_is_worker(parent, &parent, &runs))
            break;
    }
    return -1;
}

/*
 * CPU time for the search of children and ancestors. One that has 30 000 threads takes 0.2 s for each child.
 * Processes that follow have rows of their own.
 */
#define FOLD_CLOCKS (CLOCKS_PER_SEC / 2)

/* Counts forked children with the process whose figures are theirs, and drops their own rows. */
static void fold_workers(struct picture *picture)
{
    static struct picture all;
    const clock_t until = clock() + FOLD_CLOCKS;
    int row[GF_FOUND_MOST]; /* where each process is shown; -1: below `above` */
    int above[GF_FOUND_MOST];
    size_t count = 0;

    all = *picture;
    memset(picture->workers, 0, sizeof(picture->workers));
    memset(picture->asleep, 0, sizeof(picture->asleep));
    for (size_t i = 0; i < all.found.count; i++) {
        pid_t parent = 0;
        bool runs = false;
        above[i] = clock() < until && gf_snapshot_is_worker(all.found.pids[i], &parent, &runs)
                       ? find_ancestor(&all, parent, until)
                       : -1;
        all.asleep[i] = !runs;
        row[i] = above[i] < 0 ? (int)count : -1;
        if (above[i] < 0)
            picture->found.pids[count++] = all.found.pids[i];
    }
    for (size_t i = 0; i < all.found.count; i++) {
        int top = above[i];
        for (unsigned k = 0; top >= 0 && row[top] < 0 && k < ANCESTORS_MOST; k++)
            top = above[top];
        if (top < 0 || row[top] < 0)
            continue;
        picture->workers[row[top]]++;
        picture->asleep[row[top]] += all.asleep[i];
    }
    picture->found.count = count;
}

/*
 * Finds the processes to show. Returns 0, 1 if the user named a process, and this process has ended, or
 * -errno after printing why they cannot be found.
 */
static int find(const struct words *words, struct picture *picture)
{
    if (!words->only) {
        const int error = gf_snapshot_find(words->operand, &picture->found);
        fold_workers(picture);
        return error;
    }
    gf_snapshot_begin();
    picture->found.pids[0] = words->only;
    picture->found.count = 1;
    const int error = gf_snapshot_check(words->only);
    if (error == -ENOENT || error == -ESRCH)
        return 1;
    return !error || error == -ETIMEDOUT /* its mappings cannot be read now */
               ? 0
               : gf_cli_fail(error, "cannot read process %d: %s", words->only, strerror(-error));
}

/* Returns 0 or -errno. */
static int show(const struct words *words)
{
    static struct picture picture;
    const bool terminal = words->count > 1 && !words->json && gf_screen_open();
    int ended = 0;

    for (uint64_t i = 0; i < words->count; i++) {
        if ((i && !gf_screen_wait(PERIOD_MS)) || (ended = find(words, &picture)))
            break;
        if (terminal)
            fputs("\033[H\033[J", stdout); /* clears the screen, from the top left on */
        words->json ? print_json(&picture) : draw(&picture);
        fflush(stdout);
        if (ferror(stdout))
            break;
    }
    gf_screen_close();
    return gf_min(ended, 0);
}

int gf_cmd_top(int argc, char **argv)
{
    static const struct gf_words reading = {print_top_help, read_flag, read_operand, false};
    struct gf_flags reader = {.argc = argc, .argv = argv, .flags = flag_table, .shorts = "n:"};
    struct words words = {.count = 0};
    int code;

    if (!gf_flags_read(&reader, &reading, &words, &code))
        return code;
    if (!words.count)
        words.count = words.json ? 1 : UINT64_MAX;
    if (words.operand && check_operand(&words))
        return GF_EXIT_FAILED;
    return show(&words) ? GF_EXIT_FAILED : GF_EXIT_OK;
}
