/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report/sums/copies.h"

#include "base/fmt.h"
#include "cli/report/input/report_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const gf_way_names[GF_WAYS] = {"staged", "pinned", "driver", "other"};
const char *const gf_direction_names[GF_DIRECTIONS] = {"to_device", "from_device"};

static void add_sum(struct gf_copy_sum *sum, const json_t *row)
{
    sum->calls += gf_report_number(row, "calls") + gf_report_number(row, "copies");
    sum->bytes += gf_report_number(row, "bytes");
    sum->duration_s += gf_report_number(row, "duration_s");
}

static struct gf_copy_reason *reason_of(struct gf_copies *copies, int direction, const char *key)
{
    struct gf_copy_reason *list = copies->reasons[direction];
    unsigned *count = &copies->reason_count[direction];
    char name[sizeof(list->name)];

    snprintf(name, sizeof(name), "%s", key);
    gf_plain_text(name);
    for (unsigned i = 0; i < *count; i++)
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    if (*count == GF_COPY_REASONS)
        return NULL;
    memcpy(list[*count].name, name, sizeof(name));
    return &list[(*count)++];
}

static void add_direction(struct gf_copies *copies, int direction, const json_t *row)
{
    const char *name;
    json_t *reason;

    for (int way = 0; way < GF_WAYS; way++)
        add_sum(&copies->ways[direction][way], json_object_get(row, gf_way_names[way]));
    json_t *reasons = json_object_get(row, "reasons");
    json_object_foreach(reasons, name, reason)
    {
        struct gf_copy_reason *at = reason_of(copies, direction, name);
        if (at)
            add_sum(&at->sum, reason);
    }
}

void gf_copies_add(struct gf_copies *copies, const json_t *report)
{
    const json_t *transfers = gf_report_at(report, "transfers");

    if (!json_is_object(transfers))
        return;
    copies->reports++;
    for (int i = 0; i < GF_DIRECTIONS; i++)
        add_direction(copies, i, json_object_get(transfers, gf_direction_names[i]));
    add_sum(&copies->small, json_object_get(transfers, "small"));
    copies->stream_waits += gf_report_number(transfers, "ring.stream_waits");
    copies->pinning_saves_s += gf_report_number(transfers, "pinning_at_source.saves_at_most_s");
    if (!*copies->staging_off)
        gf_report_text(transfers, "staging_off", copies->staging_off, sizeof(copies->staging_off));
}

static int by_bytes(const void *a, const void *b)
{
    const struct gf_copy_reason *one = a, *other = b;

    if (one->sum.bytes != other->sum.bytes)
        return one->sum.bytes > other->sum.bytes ? -1 : 1;
    return strcmp(one->name, other->name);
}

void gf_copies_finish(struct gf_copies *copies)
{
    for (int i = 0; i < GF_DIRECTIONS; i++)
        qsort(copies->reasons[i], copies->reason_count[i], sizeof(copies->reasons[i][0]), by_bytes);
}

double gf_copy_rate(const struct gf_copy_sum *sum)
{
    return sum->duration_s > 0 ? sum->bytes / sum->duration_s / 1e9 : 0;
}
