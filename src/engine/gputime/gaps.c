/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/gaps.h"

#include <sched.h>
#include <string.h>

#define TRIES 1000u

static bool lock_list(struct gf_gaps *gaps)
{
    for (unsigned i = 0; i < TRIES; i++) {
        bool locked = false;
        if (gf_cas_acquire(&gaps->locked, &locked, true))
            return true;
        sched_yield();
    }
    return false;
}

static void unlock_list(struct gf_gaps *gaps)
{
    gf_store_release(&gaps->locked, false);
}

static enum gf_host_cause most_seen(const struct gf_gaps *gaps)
{
    enum gf_host_cause most = gf_host_other;
    for (unsigned i = 0; i < GF_HOST_CAUSE_COUNT; i++)
        if (gaps->seen[i] > gaps->seen[most])
            most = (enum gf_host_cause)i;
    return most;
}

/*
 * Adds the gap to the list of the longest gaps if it is long enough. If a reader holds the list for
 * too long, the gap is not listed.
 */
static void keep_if_long(struct gf_gaps *gaps, const struct gf_gpu_gap *gap)
{
    if (gap->ns <= gaps->longest[GF_GAPS_LONGEST - 1].ns || !lock_list(gaps))
        return;
    unsigned at = GF_GAPS_LONGEST - 1;
    for (; at && gaps->longest[at - 1].ns < gap->ns; at--)
        gaps->longest[at] = gaps->longest[at - 1];
    gaps->longest[at] = *gap;
    unlock_list(gaps);
}

static void end_gap(struct gf_gaps *gaps, uint64_t now)
{
    const uint64_t stamped = gf_load_acquire(&gaps->shared->ended_ns);
    const uint64_t ended = stamped && stamped < now ? stamped : now;
    const struct gf_gpu_gap gap = {.start_ns = gaps->since_ns,
                                   .ns = ended - gf_min(gaps->since_ns, ended),
                                   .cause = most_seen(gaps),
                                   .ender = stamped ? gf_load_acquire(&gaps->shared->ender) : 0};

    gf_store_release(&gaps->shared->open, false);
    gf_add_relaxed(&gaps->count, 1);
    const uintptr_t python = gap.ender ? gf_load_relaxed(&gaps->shared->python) : 0;
    if (gap.ender)
        gf_store_relaxed(&gaps->last_ender, gap.ender);
    if (python)
        gf_store_relaxed(&gaps->last_python, python);
    keep_if_long(gaps, &gap);
    gaps->since_ns = 0;
}

/*
 * Begins a gap. Its true start is between the last sample or the end of the previous gap (`after`)
 * and now, so it is set to the middle.
 */
static void begin_gap(struct gf_gaps *gaps, uint64_t after, uint64_t now)
{
    gaps->since_ns = after ? after + (now - after) / 2 : now;
    memset(gaps->seen, 0, sizeof(gaps->seen));
    gf_store_relaxed(&gaps->shared->ended_ns, 0);
    gf_store_relaxed(&gaps->shared->ender, 0);
    gf_store_release(&gaps->shared->open, true);
}

void gf_gaps_see(struct gf_gaps *gaps, uint64_t previous_ns, uint64_t now, bool known, bool empty)
{
    const uint64_t ended = gaps->since_ns ? gf_load_acquire(&gaps->shared->ended_ns) : 0;

    if (gaps->since_ns && (ended || !known || !empty))
        end_gap(gaps, now);
    if (known && empty && !gaps->since_ns)
        begin_gap(gaps, gf_max(ended, previous_ns), now);
}

void gf_gaps_cause(struct gf_gaps *gaps, enum gf_host_cause cause)
{
    if (gaps->since_ns)
        gaps->seen[cause]++;
}

void gf_gaps_read(struct gf_gaps *gaps, struct gf_gpu_gap ret[GF_GAPS_LONGEST])
{
    memset(ret, 0, sizeof(*ret) * GF_GAPS_LONGEST);
    if (!lock_list(gaps))
        return;
    memcpy(ret, gaps->longest, sizeof(gaps->longest));
    unlock_list(gaps);
}
