/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/compare/figures.h"

#include "base/fmt.h"
#include "tools/common/text.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define REPORT_MOST ((size_t)4 << 20) /* many times a real report */

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

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void add_copies(struct gf_figures_copies *copies, const json_t *direction)
{
    static const char *const ways[] = {"staged", "pinned", "driver"};

    for (size_t i = 0; i < GF_ARRAY_LEN(ways); i++) {
        const json_t *way = json_object_get(direction, ways[i]);
        copies->bytes += number(way, "bytes");
        copies->seconds += number(way, "duration_s");
    }
    copies->staged_bytes += number(json_object_get(direction, "staged"), "bytes");
    copies->pinned_bytes += number(json_object_get(direction, "pinned"), "bytes");
}

static void add_stalls(struct gf_figures *figures, json_t *stalls)
{
    const char *cause;
    json_t *row;

    json_object_foreach(json_object_get(stalls, "causes"), cause, row)
    {
        struct gf_figures_stalls *into = gf_figures_cause(figures, cause);
        into->count += number(row, "count");
        into->seconds += number(row, "us") / 1e6;
    }
    figures->stalls.count += number(stalls, "count");
    figures->stalls.seconds += number(stalls, "us") / 1e6;
}

static void add_gpus(struct gf_figures *figures, const json_t *devices)
{
    const char *state;
    json_t *device, *row;
    size_t i;

    json_array_foreach(devices, i, device)
        json_object_foreach(json_object_get(device, "states"), state, row)
    {
        figures->gpu_s += number(row, "s");
        figures->gpu_empty_s += strcmp(state, "empty") == 0 ? number(row, "s") : 0;
    }
}

int gf_figures_add_file(struct gf_figures *figures, const char *path)
{
    size_t length;
    char *text = gf_whole_file_read(path, REPORT_MOST, &length);

    if (!text)
        return -errno;
    json_t *report = json_loadb(text, length, 0, NULL);
    free(text);
    if (!json_is_integer(json_object_get(report, "schema")) ||
        !json_is_string(json_object_get(report, "state"))) {
        json_decref(report);
        return -EINVAL;
    }
    const json_t *transfers = json_object_get(report, "transfers");
    const json_t *steps = json_object_get(report, "steps");
    figures->reports++;
    figures->ran_s += number(report, "ran_s");
    figures->steps += number(steps, "ended");
    figures->steps_s += number(steps, "us") / 1e6;
    add_copies(&figures->to_device, json_object_get(transfers, "to_device"));
    add_copies(&figures->from_device, json_object_get(transfers, "from_device"));
    add_stalls(figures, json_object_get(report, "stalls"));
    add_gpus(figures, json_object_get(json_object_get(report, "gpu_time"), "devices"));
    json_decref(report);
    return 0;
}

static void sum_copies(struct gf_figures_copies *copies, const struct gf_figures_copies *more)
{
    copies->bytes += more->bytes;
    copies->seconds += more->seconds;
    copies->staged_bytes += more->staged_bytes;
    copies->pinned_bytes += more->pinned_bytes;
}

void gf_figures_add(struct gf_figures *figures, const struct gf_figures *more)
{
    figures->reports += more->reports;
    figures->ran_s += more->ran_s;
    figures->steps += more->steps;
    figures->steps_s += more->steps_s;
    figures->gpu_s += more->gpu_s;
    figures->gpu_empty_s += more->gpu_empty_s;
    sum_copies(&figures->to_device, &more->to_device);
    sum_copies(&figures->from_device, &more->from_device);
    figures->stalls.count += more->stalls.count;
    figures->stalls.seconds += more->stalls.seconds;
    for (size_t i = 0; i < GF_FIGURES_CAUSES && *more->causes[i].cause; i++) {
        struct gf_figures_stalls *row = gf_figures_cause(figures, more->causes[i].cause);
        row->count += more->causes[i].count;
        row->seconds += more->causes[i].seconds;
    }
}
