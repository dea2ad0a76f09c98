/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/compare/compare.h"

#include "base/fmt.h"
#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/job/job_input.h"

#include <stdlib.h>
#include <sys/stat.h>

/*
 * Returns the row of a cause, and adds the row if it is missing. If the table is full, returns its
 * last row.
 */
static struct gf_figures_row *row_of_cause(struct gf_figures_row rows[GF_FIGURES_CAUSES],
                                           const char *cause)
{
    struct gf_figures_row *row = rows;
    char plain[sizeof(row->cause)];

    snprintf(plain, sizeof(plain), "%s", cause);
    gf_plain_text(plain);
    while (*row->cause && strcmp(row->cause, plain) != 0 && row + 1 < rows + GF_FIGURES_CAUSES)
        row++;
    if (!*row->cause)
        memcpy(row->cause, plain, sizeof(row->cause));
    return row;
}

static void add_row(struct gf_figures *figures, enum gf_figures_of kind,
                    const struct gf_figures_row *more)
{
    struct gf_figures_row *row = row_of_cause(figures->causes[kind], more->cause);

    row->count += more->count;
    row->seconds += more->seconds;
    if (more->line_s <= row->line_s)
        return;
    row->line_s = more->line_s;
    memcpy(row->line, more->line, sizeof(row->line));
}

static void add_stalls(struct gf_figures *figures, json_t *stalls)
{
    const char *cause;
    json_t *row;

    json_object_foreach(json_object_get(stalls, "causes"), cause, row) {
        struct gf_figures_row more = {.count = gf_report_number(row, "count"),
                                      .seconds = gf_report_number(row, "us") / 1e6};
        snprintf(more.cause, sizeof(more.cause), "%s", gf_report_plain(cause, sizeof(more.cause)));
        add_row(figures, GF_OF_STALLS, &more);
    }
    figures->stalls.count += gf_report_number(stalls, "count");
    figures->stalls.seconds += gf_report_number(stalls, "us") / 1e6;
}

static void add_idle(struct gf_figures *figures, const json_t *report)
{
    struct gf_gpu_time time = {0};

    gf_gpu_time_add(&time, report, -1);
    for (unsigned i = 0; i < time.causes.count; i++) {
        const struct gf_gpu_part *part = &time.causes.list[i];
        struct gf_figures_row more = {.seconds = part->s, .line_s = part->rank_s};
        memcpy(more.cause, part->name, sizeof(more.cause));
        memcpy(more.line, part->line, sizeof(more.line));
        add_row(figures, GF_OF_IDLE, &more);
    }
}

static void add_step_times(struct gf_figures *figures, const json_t *times)
{
    const double steps = gf_report_number(times, "steps");

    figures->timed += steps;
    figures->timed_p99_s += steps * gf_report_number(times, "p99_ms") / 1e3;
    if (json_is_number(json_object_get(times, "data_wait_ms"))) {
        figures->awaited += steps;
        figures->awaited_s += steps * gf_report_number(times, "data_wait_ms") / 1e3;
    }
}

int gf_figures_add_file(struct gf_figures *figures, const char *path)
{
    struct gf_copies copies = {0};
    size_t length;
    GF_OWNED char *text = gf_whole_file_read(path, GF_REPORT_MOST, &length);

    if (!text)
        return -errno;
    json_t *report = json_loadb(text, length, 0, NULL);
    if (!json_is_integer(json_object_get(report, "schema")) ||
        !json_is_string(json_object_get(report, "state"))) {
        json_decref(report);
        return -EINVAL;
    }
    gf_copies_add(&copies, report);
    figures->reports++;
    figures->ran_s += gf_report_number(report, "ran_s");
    figures->steps += gf_report_number(report, "steps.ended");
    figures->steps_s += gf_report_number(report, "steps.us") / 1e6;
    add_step_times(figures, json_object_get(report, "step_times"));
    for (int i = 0; i < GF_DIRECTIONS; i++)
        for (int way = 0; way < GF_WAYS; way++)
            gf_copy_sum_add(&figures->copies[i][way], &copies.ways[i][way]);
    add_stalls(figures, json_object_get(report, "stalls"));
    gf_gpu_seconds_add(report, &figures->gpu_s, &figures->gpu_empty_s);
    add_idle(figures, report);
    json_decref(report);
    return 0;
}

static void add_figures(struct gf_figures *figures, const struct gf_figures *more)
{
    double *sums = (double *)figures;
    const double *others = (const double *)more;

    for (size_t i = 0; i < offsetof(struct gf_figures, stalls) / sizeof(*sums); i++)
        sums[i] += others[i];
    figures->stalls.count += more->stalls.count;
    figures->stalls.seconds += more->stalls.seconds;
    for (int kind = 0; kind < GF_FIGURES_KINDS; kind++)
        for (size_t i = 0; i < GF_FIGURES_CAUSES && *more->causes[kind][i].cause; i++)
            add_row(figures, kind, &more->causes[kind][i]);
}

void gf_side_add(struct gf_side *side, const struct gf_run *run)
{
    struct gf_gpu_clock *clock = &side->sum.clock;

    *GF_JOB_ADD(side->runs, side->count) = *run;
    add_figures(&side->sum.figures, &run->figures);
    clock->readings += run->clock.readings;
    clock->mhz += run->clock.mhz;
    clock->celsius = gf_max(clock->celsius, run->clock.celsius);
    clock->limited += run->clock.limited;
}

double gf_figures_growth(const struct gf_figures_row *before, const struct gf_figures_row *after,
                         const double runs[2])
{
    return after->seconds / runs[1] - before->seconds / runs[0];
}

bool gf_figures_take_most(struct gf_figures figures[2], enum gf_figures_of kind,
                          const double runs[2], struct gf_figures_row ret[2])
{
    struct gf_figures_row *before = figures[0].causes[kind], *after = figures[1].causes[kind];
    struct gf_figures_row *most[2] = {NULL};

    for (size_t i = 0; i < GF_FIGURES_CAUSES && *after[i].cause; i++)
        row_of_cause(before, after[i].cause);
    for (size_t i = 0; i < GF_FIGURES_CAUSES && *before[i].cause; i++) {
        struct gf_figures_row *pair = row_of_cause(after, before[i].cause);
        if (fabs(gf_figures_growth(&before[i], pair, runs)) >
            (most[0] ? fabs(gf_figures_growth(most[0], most[1], runs)) : 0)) {
            most[0] = &before[i];
            most[1] = pair;
        }
    }
    for (size_t i = 0; i < 2 && most[0]; i++) {
        ret[i] = *most[i];
        most[i]->seconds = most[i]->count = 0;
    }
    return most[0];
}

static bool is_report_name(const char *name)
{
    const size_t length = strlen(name);
    return *name != '.' && length > 5 && strcmp(name + length - 5, ".json") == 0;
}

int gf_run_add(struct gf_figures *run, const char *path)
{
    const int error = gf_figures_add_file(run, path);

    if (error == -EINVAL)
        gf_cli_error("%s is not a report (GPUFEED_REPORT)", path);
    else if (error)
        gf_cli_error("cannot read %s: %s", path, strerror(-error));
    return error;
}

/* A folder that is read, and its run. */
struct reading {
    struct gf_side *side;
    struct gf_run run;
    struct gf_text_pool files; /* device and inode of each file or folder that was read */
    unsigned names;            /* of this folder and of those in it */
};

/*
 * Calls `each` with the path of each entry, in any order, until it returns an error. Returns that
 * error, or -errno after printing one.
 */
static int each_entry(const char *folder, struct reading *reading,
                      int (*each)(struct reading *reading, const char *path))
{
    char path[PATH_MAX];
    int error = 0;
    GF_FOLDER(entries, folder);

    if (!entries.entries) {
        error = -errno;
        return gf_cli_fail(error, "cannot read %s: %s", folder, strerror(-error));
    }
    entries.names = reading->names;
    for (const char *name; !error && (name = gf_folder_next(&entries));) {
        reading->names = entries.names;
        if (snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path))
            error = each(reading, path);
        entries.names = reading->names;
    }
    if (!error && entries.names > GF_FOLDER_MOST)
        return gf_cli_fail(-E2BIG, "%s: more than %u names in all", folder, GF_FOLDER_MOST);
    return error;
}

/* Whether no other name of the file or folder was read. */
static bool is_first_name(struct reading *reading, const struct stat *found)
{
    const uint64_t file[] = {found->st_dev, found->st_ino};
    bool is_new;

    gf_text_pool_add(&reading->files, (const char *)file, sizeof(file), &is_new);
    return is_new;
}

static int add_process(struct reading *reading, const char *path)
{
    struct stat found;

    if (!is_report_name(strrchr(path, '/') + 1) ||
        (stat(path, &found) == 0 && !is_first_name(reading, &found)))
        return 0;
    return gf_run_add(&reading->run.figures, path);
}

static int add_run(struct reading *reading, const char *path)
{
    struct gf_figures *figures = &reading->run.figures;
    struct stat found;

    if (stat(path, &found))
        return 0;
    const bool is_folder = S_ISDIR(found.st_mode);
    if (is_folder && !is_first_name(reading, &found))
        return 0;
    reading->run = (struct gf_run){0};
    const int error =
        is_folder ? each_entry(path, reading, add_process) : add_process(reading, path);
    if (error || figures->reports < 1)
        return error;
    if (reading->side->count == GF_FOLDER_RUNS_MAX)
        return gf_cli_fail(-E2BIG, "a folder has more than %u runs", GF_FOLDER_RUNS_MAX);
    if (figures->ran_s < GF_FIGURES_LEAST_S)
        return gf_cli_fail(-EINVAL, "%s took no time (ran_s)", path);
    reading->run.wall_s = figures->ran_s / figures->reports;
    gf_side_add(reading->side, &reading->run);
    return 0;
}

int gf_folder_read(const char *path, struct gf_side *side)
{
    struct reading reading = {.side = side};
    const int error = each_entry(path, &reading, add_run);

    gf_text_pool_free(&reading.files);
    return error;
}
