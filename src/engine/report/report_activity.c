/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/report_activity.h"

#include "base/fmt.h"
#include "engine/gputime/sampler.h"
#include "engine/report/transfer_sums.h"
#include "engine/transfer/stats.h"

#include <string.h>

#define LONGEST 16

struct sums {
    uint64_t state_ns[GF_SUBMIT_DEVICES][GF_GPU_STATE_COUNT];
    struct gf_copy_counts copies[gf_direction_count][gf_copy_group_count];
};

static struct sums past; /* the sums at the end of the last interval */

static void read_sums(struct sums *ret)
{
    struct gf_copy_stats stats;

    gf_sampler_read_states(ret->state_ns);
    gf_copy_stats_read(&stats);
    for (unsigned direction = 0; direction < gf_direction_count; direction++) {
        struct gf_copy_counts *ways = ret->copies[direction];
        gf_transfer_sums_staged(&stats, direction, &ways[gf_copy_group_staged]);
        gf_transfer_sums_driver(&stats, direction, &ways[gf_copy_group_driver]);
        gf_transfer_sums_bypassed(&stats, direction, gf_bypass_pinned, &ways[gf_copy_group_pinned]);
        gf_transfer_sums_bypassed(&stats, direction, gf_bypass_ends, &ways[gf_copy_group_other]);
    }
}

/*
 * Writes the time by state since the last line for each device that was sampled in this time.
 * Returns the number of these devices.
 */
static unsigned put_devices(struct gf_json *json, const struct sums *now)
{
    unsigned count = 0;

    gf_json_begin(json, "gpus", '[');
    for (unsigned i = 0; i < GF_SUBMIT_DEVICES; i++) {
        const uint64_t *before = past.state_ns[i];
        if (memcmp(now->state_ns[i], before, sizeof(past.state_ns[i])) == 0)
            continue;
        gf_json_begin(json, NULL, '{');
        gf_json_size(json, "device", i);
        for (unsigned state = 0; state < GF_GPU_STATE_COUNT; state++) {
            char key[32];
            gf_fmt(key, sizeof(key), "%s_ms", gf_gpu_state_name(state));
            gf_json_size(json, key, (now->state_ns[i][state] - before[state]) / 1000000);
        }
        gf_json_end(json, '}');
        count++;
    }
    gf_json_end(json, ']');
    return count;
}

static void put_direction(struct gf_json *json, enum gf_direction direction)
{
    gf_json_text(json, "direction", direction == gf_direction_h2d ? "to_device" : "from_device");
}

/*
 * Writes a row for each direction and way in which copies were made since the last line. Returns
 * the number of rows.
 */
static unsigned put_copies(struct gf_json *json, const struct sums *now)
{
    unsigned count = 0;

    gf_json_begin(json, "copies", '[');
    for (unsigned i = 0; i < gf_direction_count * gf_copy_group_count; i++) {
        const unsigned direction = i / gf_copy_group_count, way = i % gf_copy_group_count;
        const struct gf_copy_counts *counts = &now->copies[direction][way],
                                    *before = &past.copies[direction][way];
        if (counts->calls == before->calls)
            continue;
        gf_json_begin(json, NULL, '{');
        put_direction(json, direction);
        gf_json_text(json, "way", gf_copy_group_name(way));
        gf_json_size(json, "calls", counts->calls - before->calls);
        gf_json_size(json, "bytes", counts->bytes - before->bytes);
        gf_json_size(json, "us", (counts->timed_ns - before->timed_ns) / 1000);
        gf_json_end(json, '}');
        count++;
    }
    gf_json_end(json, ']');
    return count;
}

static void put_longest(struct gf_json *json)
{
    struct gf_long_copy list[LONGEST];
    const size_t count = gf_longest_copies_take(list, LONGEST);

    gf_json_begin(json, "longest", '[');
    for (size_t i = 0; i < count; i++) {
        gf_json_begin(json, NULL, '{');
        gf_json_micro(json, "start", (list[i].end_ns - gf_min(list[i].ns, list[i].end_ns)) / 1000);
        gf_json_size(json, "us", list[i].ns / 1000);
        gf_json_size(json, "bytes", list[i].bytes);
        put_direction(json, list[i].direction);
        gf_json_text(json, "way", gf_copy_group_name(list[i].group));
        gf_json_int(json, "tid", list[i].tid);
        gf_json_end(json, '}');
    }
    gf_json_end(json, ']');
}

bool gf_report_activity_put(struct gf_json *json)
{
    struct sums now;

    read_sums(&now);
    const unsigned devices = put_devices(json, &now), copies = put_copies(json, &now);
    put_longest(json);
    past = now;
    return devices || copies;
}
