/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/metrics_file.h"

#include "base/log.h"
#include "base/path.h"
#include "engine/process/replace_file.h"
#include "engine/report/report_metrics.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static bool written;

bool gf_metrics_file_wanted(const struct gf_report *report)
{
    return *report->options->metrics;
}

static int expand(const struct gf_report *report, char ret[PATH_MAX])
{
    return gf_path_expand(report->options->metrics, report->pid, report->facts->rank.rank, ret,
                          PATH_MAX);
}

void gf_metrics_file_write(const struct gf_report *report)
{
    static bool refused;
    char path[PATH_MAX];
    char *text = malloc(GF_REPORT_METRICS_BYTES);
    const size_t length = text ? gf_report_metrics(report, text, GF_REPORT_METRICS_BYTES) : 0;
    int error = length ? expand(report, path) : -ENOMEM;

    if (!error)
        error = gf_replace_file(path, text, length);
    free(text);
    written = written || !error;
    if (error && !refused)
        gf_warn("GPUFEED_METRICS: cannot write %s: %s; the metrics are lost",
                report->options->metrics, strerrordesc_np(-error));
    refused = error != 0;
}

void gf_metrics_file_remove(const struct gf_report *report)
{
    char path[PATH_MAX];

    if (written && !expand(report, path))
        gf_remove_file(path);
    written = false;
}

void gf_metrics_file_check(const struct gf_report *report)
{
    const char *path = report->options->metrics;
    const size_t length = strlen(path);

    if (length && (length < 5 || strcmp(path + length - 5, ".prom") != 0))
        gf_warn("GPUFEED_METRICS: %s does not end in .prom; node_exporter ignores the file", path);
}
