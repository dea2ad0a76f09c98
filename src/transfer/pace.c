/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/pace.h"

#include "transfer/tuning.h"

/* Sizes from one power of two to the next are judged together: 1, 2, 4, 8 and 16 MiB. */
#define CLASSES 5

/* All atomic. Nanoseconds for a MiB, of which the last copies count most; 0: not known. */
struct pace {
    uint64_t driver_ns, staged_ns;
    unsigned driven; /* copies of the driver's that were seen, the first few */
    unsigned trials; /* copies staged since the driver's turn */
    unsigned turn;   /* copies that are the driver's yet */
    unsigned turns;  /* how many that were, last time; 0: staging has paid since */
};

static struct pace paces[gf_direction_count][2][CLASSES];

#define LOAD(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define STORE(field, value) __atomic_store_n(&(field), (value), __ATOMIC_RELAXED)

/* NULL: it is not judged. */
static struct pace *pace_of(struct gf_copy_kind kind, uint64_t bytes)
{
    const uint64_t mib = bytes >> 20;
    if (!mib || mib >= 1u << CLASSES)
        return NULL;
    return &paces[kind.direction][kind.async][63 - __builtin_clzll(mib)];
}

/*
 * Of the first few the least: what they meet for the first time, or again after the other's turn, makes them late.
 * From then on an eighth is the newest, which counts as twice the mean at most: one that was late proves nothing.
 */
static void blend(uint64_t *mean, unsigned seen, uint64_t bytes, uint64_t ns)
{
    const uint64_t now = (uint64_t)((double)ns * (1 << 20) / (double)bytes) + 8, before = LOAD(*mean);
    STORE(*mean, !before                      ? now
                 : seen < GF_TUNE_PACE_FIRST ? gf_min(before, now)
                                             : before - before / 8 + gf_min(now, 2 * before) / 8);
}

bool gf_pace_allows(struct gf_copy_kind kind, uint64_t bytes)
{
    struct pace *pace = pace_of(kind, bytes);
    unsigned left;

    if (!pace)
        return true;
    left = LOAD(pace->turn);
    while (left && !__atomic_compare_exchange_n(&pace->turn, &left, left - 1, true,
                                                __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    return !left;
}

/* The longer the more often it has been: trials cost what they show. By one of those who find it at once. */
static void give_turn(struct pace *pace)
{
    const unsigned turns = gf_min(gf_max(2 * LOAD(pace->turns), GF_TUNE_PACE_TURN), GF_TUNE_PACE_TURN_MOST);
    unsigned none = 0;
    if (!__atomic_compare_exchange_n(&pace->turn, &none, turns, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    STORE(pace->turns, turns);
    STORE(pace->trials, 0);
    STORE(pace->staged_ns, 0);
}

/* What staging may take: by what the driver took for that size; else for others, or in general, with less certainty. */
static uint64_t allowed(struct gf_copy_kind kind, const struct pace *pace)
{
    const struct pace *row = paces[kind.direction][kind.async];
    const uint64_t own = LOAD(pace->driver_ns);
    uint64_t others = 0;

    for (unsigned i = 0; !own && i < CLASSES; i++)
        others = gf_max(others, LOAD(row[i].driver_ns));
    return own      ? own + own / 4
           : others ? gf_min(2 * others, GF_TUNE_PACE_UNKNOWN_NS)
                    : GF_TUNE_PACE_UNKNOWN_NS;
}

void gf_pace_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns)
{
    struct pace *pace = pace_of(kind, bytes);

    if (!pace || LOAD(pace->turn)) /* what was under way when the turn was given is no trial of the next */
        return;
    blend(&pace->staged_ns, LOAD(pace->trials), bytes, ns);
    const unsigned trials = __atomic_add_fetch(&pace->trials, 1, __ATOMIC_RELAXED);
    if (trials >= GF_TUNE_PACE_TRIALS && LOAD(pace->staged_ns) > allowed(kind, pace))
        give_turn(pace);
    else if (trials >= GF_TUNE_PACE_SETTLED)
        STORE(pace->turns, 0);
}

void gf_pace_driver(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns)
{
    struct pace *pace = pace_of(kind, bytes);
    if (!pace)
        return;
    const unsigned seen = LOAD(pace->driven);
    blend(&pace->driver_ns, seen, bytes, ns);
    if (seen < GF_TUNE_PACE_FIRST)
        STORE(pace->driven, seen + 1);
}
