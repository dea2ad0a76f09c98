/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/compare/figures.h"

#include "base/fmt.h"
#include "tools/common/text.h"
#include "tools/job/process_report.h"

#include <stdio.h>
#include <stdlib.h>

struct gf_figures_stalls *gf_figures_cause(struct gf_figures *figures, const char *cause)
{
    struct gf_figures_stalls *row = figures->causes;
    char plain[sizeof(row->cause)];

    snprintf(plain, sizeof(plain), "%s", cause);
    gf_plain_text(plain);
    while (*row->cause && strcmp(row->cause, plain) != 0 &&
           row + 1 < figures->causes + GF_FIGURES_CAUSES)
        row++;
    if (!*row->cause)
        memcpy(row->cause, plain, sizeof(row->cause));
    return row;
}

static void add_copies(struct gf_figures *figures,
                       const struct gf_copy_sum more[GF_DIRECTIONS][GF_WAYS])
{
    for (int i = 0; i < GF_DIRECTIONS; i++)
        for (int way = 0; way < GF_WAYS; way++)
            gf_copy_sum_add(&figures->copies[i][way], &more[i][way]);
}

static void add_stalls(struct gf_figures *figures, json_t *stalls)
{
    const char *cause;
    json_t *row;

    json_object_foreach(json_object_get(stalls, "causes"), cause, row)
    {
        struct gf_figures_stalls *into = gf_figures_cause(figures, cause);
        into->count += gf_report_number(row, "count");
        into->seconds += gf_report_number(row, "us") / 1e6;
    }
    figures->stalls.count += gf_report_number(stalls, "count");
    figures->stalls.seconds += gf_report_number(stalls, "us") / 1e6;
}

int gf_figures_add_file(struct gf_figures *figures, const char *path)
{
    struct gf_copies copies = {0};
    size_t length;
    char *text = gf_whole_file_read(path, GF_REPORT_MOST, &length);

    if (!text)
        return -errno;
    json_t *report = json_loadb(text, length, 0, NULL);
    free(text);
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
    add_copies(figures, copies.ways);
    add_stalls(figures, json_object_get(report, "stalls"));
    gf_gpu_seconds_add(report, &figures->gpu_s, &figures->gpu_empty_s);
    json_decref(report);
    return 0;
}

void gf_figures_add(struct gf_figures *figures, const struct gf_figures *more)
{
    figures->reports += more->reports;
    figures->ran_s += more->ran_s;
    figures->steps += more->steps;
    figures->steps_s += more->steps_s;
    figures->gpu_s += more->gpu_s;
    figures->gpu_empty_s += more->gpu_empty_s;
    add_copies(figures, more->copies);
    figures->stalls.count += more->stalls.count;
    figures->stalls.seconds += more->stalls.seconds;
    for (size_t i = 0; i < GF_FIGURES_CAUSES && *more->causes[i].cause; i++) {
        struct gf_figures_stalls *row = gf_figures_cause(figures, more->causes[i].cause);
        row->count += more->causes[i].count;
        row->seconds += more->causes[i].seconds;
    }
}
