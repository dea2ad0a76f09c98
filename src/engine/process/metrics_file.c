/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/metrics_file.h"

#include "base/log.h"
#include "base/output_file.h"
#include "base/path.h"
#include "os/files.h"
#include "engine/process/write_thread.h"
#include "engine/report/report_metrics.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static void write_text(void);

/* While the job is busy, only the job uses the other members. */
static struct {
    struct gf_write_job job;
    bool written, refused; /* refused: the last write failed, and a warning was printed */
    const char *option;    /* the path as in GPUFEED_METRICS */
    char path[PATH_MAX];
    char *text;
    size_t length;
} file = {.job.write = write_text};

bool gf_metrics_file_wanted(const struct gf_report *report)
{
    return *report->options->metrics;
}

static int expand(const struct gf_report *report, char ret[PATH_MAX])
{
    return gf_path_expand(report->options->metrics, report->pid, report->facts->rank.rank, ret,
                          PATH_MAX);
}

static void warn_of_failure(int error)
{
    if (error && !file.refused)
        gf_warn("GPUFEED_METRICS: cannot write %s: %s; the metrics are lost", file.option,
                gf_output_reason(error));
    file.refused = error != 0;
}

static void write_text(void)
{
    const int error = gf_replace_file(file.path, file.text, file.length, gf_output_shared);

    free(file.text);
    file.written = file.written || !error;
    warn_of_failure(error);
}

void gf_metrics_file_write(const struct gf_report *report)
{
    if (gf_write_job_busy(&file.job))
        return;
    file.option = report->options->metrics;
    file.text = malloc(GF_REPORT_METRICS_BYTES);
    file.length = file.text ? gf_report_metrics(report, file.text, GF_REPORT_METRICS_BYTES) : 0;
    const int error = file.length ? expand(report, file.path) : -ENOMEM;
    if (!error) {
        gf_write_job_start(&file.job);
        return;
    }
    free(file.text);
    warn_of_failure(error);
}

void gf_metrics_file_remove(const struct gf_report *report)
{
    char path[PATH_MAX];

    if (gf_metrics_file_wanted(report) && gf_write_job_await(&file.job) && file.written &&
        !expand(report, path))
        gf_remove_file(path);
}

void gf_metrics_file_check(const struct gf_report *report)
{
    const char *path = report->options->metrics;
    const size_t length = strlen(path);

    if (length && (length < 5 || strcmp(path + length - 5, ".prom") != 0))
        gf_warn("GPUFEED_METRICS: %s does not end in .prom; node_exporter ignores the file", path);
}
