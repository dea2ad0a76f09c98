/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/compare/folder.h"

#include "tools/common/cli.h"
#include "tools/common/text.h"
#include "tools/job/text_pool.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static bool is_report_name(const char *name)
{
    const size_t length = strlen(name);
    return *name != '.' && length > 5 && strcmp(name + length - 5, ".json") == 0;
}

int gf_run_add(struct gf_figures *run, const char *path)
{
    const int error = gf_figures_add_file(run, path);

    if (error == -EINVAL)
        gf_cli_error("compare", "%s is not a report (GPUFEED_REPORT)", path);
    else if (error)
        gf_cli_error("compare", "cannot read %s: %s", path, strerror(-error));
    return error;
}

/*
 * Calls `each` with the path of each entry, in any order, until it returns an error. Returns that
 * error, or -errno after printing one.
 */
static int each_entry(const char *folder, int (*each)(void *closure, const char *path),
                      void *closure)
{
    char path[PATH_MAX];
    int error = 0;
    GF_FOLDER(entries, folder);

    if (!entries) {
        error = -errno;
        return gf_cli_fail(error, "compare", "cannot read %s: %s", folder, strerror(-error));
    }
    for (const char *name; !error && (name = gf_folder_next(entries));)
        if (snprintf(path, sizeof(path), "%s/%s", folder, name) < (int)sizeof(path))
            error = each(closure, path);
    return error;
}

/* A folder that is read, and its run. */
struct reading {
    struct gf_folder *folder;
    struct gf_figures run;
    struct gf_text_pool files; /* device and inode of each file or folder that was read */
};

/* Whether no other name of the file or folder was read. */
static bool is_first_name(struct reading *reading, const struct stat *found)
{
    const uint64_t file[] = {found->st_dev, found->st_ino};
    bool is_new;

    gf_text_pool_add(&reading->files, (const char *)file, sizeof(file), &is_new);
    return is_new;
}

static int add_process(void *closure, const char *path)
{
    struct reading *reading = closure;
    struct stat found;

    if (!is_report_name(strrchr(path, '/') + 1) ||
        (stat(path, &found) == 0 && !is_first_name(reading, &found)))
        return 0;
    return gf_run_add(&reading->run, path);
}

static int add_run(void *closure, const char *path)
{
    struct reading *reading = closure;
    struct gf_folder *folder = reading->folder;
    struct stat found;

    if (stat(path, &found))
        return 0;
    const bool is_folder = S_ISDIR(found.st_mode);
    if (is_folder && !is_first_name(reading, &found))
        return 0;
    reading->run = (struct gf_figures){0};
    const int error =
        is_folder ? each_entry(path, add_process, reading) : add_process(reading, path);
    if (error || reading->run.reports < 1)
        return error;
    if (folder->count == GF_FOLDER_RUNS_MAX)
        return gf_cli_fail(-E2BIG, "compare", "a folder has more than %u runs", GF_FOLDER_RUNS_MAX);
    if (reading->run.ran_s < GF_FIGURES_LEAST_S)
        return gf_cli_fail(-EINVAL, "compare", "%s took no time (ran_s)", path);
    folder->runs[folder->count++] = reading->run;
    gf_figures_add(&folder->sum, &reading->run);
    return 0;
}

int gf_folder_read(const char *path, struct gf_folder *ret)
{
    struct reading reading = {.folder = ret};

    *ret = (struct gf_folder){.runs = gf_cli_alloc(GF_FOLDER_RUNS_MAX, sizeof(*ret->runs))};
    const int error = each_entry(path, add_run, &reading);
    gf_text_pool_free(&reading.files);
    return error;
}

bool gf_folder_has_steps(const struct gf_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++)
        if (!gf_figures_have_steps(&folder->runs[i]))
            return false;
    return folder->count > 0;
}

double *gf_folder_times(const struct gf_folder *folder, bool by_step)
{
    double *times = gf_cli_alloc(folder->count, sizeof(*times));

    for (size_t i = 0; i < folder->count; i++) {
        const struct gf_figures *run = &folder->runs[i];
        times[i] = by_step ? run->steps_s / run->steps : run->ran_s / run->reports;
    }
    return times;
}
