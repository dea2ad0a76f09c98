/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/output/gpu_time.h"

#include "cli/report/input/plain_text.h"
#include "cli/report/input/report_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_SAMPLES 20 /* a GPU with fewer samples is ignored: its shares are not reliable */

static void add_part(struct gf_gpu_parts *parts, const char *name, double s)
{
    unsigned at = 0;

    while (at < parts->count && strcmp(parts->list[at].name, name) != 0)
        at++;
    if (at == GF_GPU_PARTS)
        return;
    if (at == parts->count)
        snprintf(parts->list[parts->count++].name, sizeof(parts->list[at].name), "%s", name);
    parts->list[at].s += s;
}

static double add_parts(struct gf_gpu_parts *parts, const json_t *rows)
{
    const char *key;
    json_t *row;
    double sum = 0;

    json_object_foreach((json_t *)(uintptr_t)rows, key, row)
    {
        char name[sizeof(parts->list[0].name)];
        const double s = gf_report_number(row, "s");
        snprintf(name, sizeof(name), "%s", key);
        add_part(parts, gf_plain_text(name), gf_max(s, 0.0));
        sum += gf_max(s, 0.0);
    }
    return sum;
}

void gf_gpu_time_add(struct gf_gpu_time *time, const json_t *section)
{
    json_t *device;
    size_t i;

    json_array_foreach(gf_report_at(section, "devices"), i, device)
    {
        if (gf_report_number(device, "samples") < LEAST_SAMPLES)
            continue;
        time->devices++;
        time->s += add_parts(&time->states, gf_report_at(device, "states"));
        add_parts(&time->causes, gf_report_at(device, "causes"));
    }
}

static int by_time(const void *a, const void *b)
{
    const struct gf_gpu_part *one = a, *other = b;

    if (one->s < other->s || one->s > other->s)
        return one->s > other->s ? -1 : 1;
    return strcmp(one->name, other->name);
}

void gf_gpu_time_finish(struct gf_gpu_time *time)
{
    qsort(time->causes.list, time->causes.count, sizeof(*time->causes.list), by_time);
}

double gf_gpu_time_state(const struct gf_gpu_time *time, const char *state)
{
    for (unsigned i = 0; i < time->states.count && time->s > 0; i++)
        if (strcmp(time->states.list[i].name, state) == 0)
            return time->states.list[i].s / time->s;
    return 0;
}
