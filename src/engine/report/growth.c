/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/report/report_data.h"

#define POINTS_LEAST 8u
/* Between two points, because a reading may be before or after a step's growth. */
#define STEPS_LEAST 4
#define BYTES_LEAST ((int64_t)64 << 20)
#define GAP_MS 400 /* between the first points */

void gf_growth_add(struct gf_growth *growth, enum gf_step_source source,
                   const struct gf_growth_point *point)
{
    if (growth->source != source)
        *growth = (struct gf_growth){.source = source};
    growth->next_ms = point->at_ms + gf_max(growth->gap_ms, (uint64_t)GAP_MS);
    if (!point->steps ||
        (growth->count && point->steps < growth->points[growth->count - 1].steps + STEPS_LEAST))
        return;
    if (growth->count == GF_GROWTH_POINTS) {
        growth->count /= 2;
        for (unsigned i = 0; i < growth->count; i++)
            growth->points[i] = growth->points[2 * i + 1];
        growth->gap_ms = 2 * gf_max(growth->gap_ms, (uint64_t)GAP_MS);
        growth->next_ms = point->at_ms + growth->gap_ms;
    }
    growth->points[growth->count++] = *point;
}

static int64_t grown(uint64_t from, uint64_t to)
{
    return (int64_t)(to - from);
}

static int64_t grown_bytes(const struct gf_growth_point *from, const struct gf_growth_point *to)
{
    return grown(from->anonymous + from->shared, to->anonymous + to->shared);
}

static bool grew(const struct gf_growth_point *from, const struct gf_growth_point *to, double rate)
{
    return (double)grown_bytes(from, to) >= rate * (double)grown(from->steps, to->steps);
}

/*
 * Whether the memory grew between each two neighbours by at least half of the mean in a step, and in
 * the last quarter by nearly the mean: a warm-up grows less and less.
 */
static bool is_steady(const struct gf_growth_point *point, unsigned first, unsigned count)
{
    const struct gf_growth_point *last = &point[count - 1];
    const int64_t bytes = grown_bytes(&point[first], last);
    const double rate = (double)bytes / (double)grown(point[first].steps, last->steps);

    if (bytes < BYTES_LEAST || !grew(last - count / 4, last, 0.8 * rate))
        return false;
    for (unsigned i = first; i + 1 < count; i++)
        if (!grew(&point[i], &point[i + 1], 0.5 * rate))
            return false;
    return true;
}

/* The number of points, without the last one if memory may already have been freed for the exit. */
static unsigned count_points(const struct gf_growth *growth)
{
    const struct gf_growth_point *first = &growth->points[0],
                                 *last = &growth->points[growth->count - 1];
    const double rate =
        (double)grown_bytes(first, last - 1) / (double)grown(first->steps, last[-1].steps);

    return growth->count - !grew(last - 1, last, 0.5 * rate);
}

/* Returns which memory has three quarters of the growth; "" if that is not known. */
static const char *find_part(const struct gf_growth_point *from, const struct gf_growth_point *to)
{
    const int64_t most = grown_bytes(from, to) / 4 * 3, pinned = grown(from->pinned, to->pinned),
                  heap = grown(from->heap, to->heap);

    return pinned >= most                                       ? ", mostly pinned memory"
           : grown(from->shared, to->shared) - pinned >= most   ? ", mostly shared memory"
           : from->heap == UINT64_MAX || to->heap == UINT64_MAX ? ""
           : heap >= most                                       ? ", mostly the heap"
           : grown(from->anonymous, to->anonymous) - heap >= most
               ? ", mostly other memory than the heap"
               : "";
}

void gf_growth_say(const struct gf_growth *growth, struct gf_textbuf *out)
{
    unsigned first = 0;

    if (growth->count < POINTS_LEAST)
        return;
    const unsigned count = count_points(growth);
    while (4 * first <= count && !is_steady(growth->points, first, count))
        first++;
    if (4 * first > count)
        return;
    const struct gf_growth_point *from = &growth->points[first], *to = &growth->points[count - 1];
    const uint64_t bytes = (uint64_t)grown_bytes(from, to), steps = to->steps - from->steps,
                   tenths = bytes / steps * 10 >> 20;
    gf_say(out, "host memory grew by ");
    if (tenths)
        gf_say(out, "%lu.%lu MiB", tenths / 10, tenths % 10);
    else
        gf_say(out, "%lu bytes", bytes / steps);
    gf_say(out, " a step from second %lu to second %lu: in %lu steps by ", from->at_ms / 1000,
           to->at_ms / 1000, steps);
    gf_say_bytes(out, bytes);
    gf_say(out, "%s", find_part(from, to));
}
