/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/pace.h"

#include "transfer/tuning.h"

/* Sizes from one power of two to the next are judged together: 1, 2, 4, 8 and 16 MiB. */
#define CLASSES 5

/* All atomic. Nanoseconds for a MiB, of which the last copies count most; 0: not known. */
struct pace {
    uint64_t driver_ns, staged_ns;
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

/* An eighth of it is the newest, which counts as twice the mean at most: one that was late proves nothing. */
static void blend(uint64_t *mean, uint64_t bytes, uint64_t ns)
{
    const uint64_t now = (uint64_t)((double)ns * (1 << 20) / (double)bytes) + 8, before = LOAD(*mean);
    STORE(*mean, before ? before - before / 8 + gf_min(now, 2 * before) / 8 : now);
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

/* The longer the more often it has been: trials cost what they show. */
static void give_turn(struct pace *pace)
{
    const unsigned turns = gf_min(gf_max(2 * LOAD(pace->turns), GF_TUNE_PACE_TURN), GF_TUNE_PACE_TURN_MOST);
    STORE(pace->trials, 0);
    STORE(pace->staged_ns, 0);
    STORE(pace->turns, turns);
    STORE(pace->turn, turns);
}

void gf_pace_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns)
{
    struct pace *pace = pace_of(kind, bytes);

    if (!pace)
        return;
    blend(&pace->staged_ns, bytes, ns);
    const unsigned trials = __atomic_add_fetch(&pace->trials, 1, __ATOMIC_RELAXED);
    const uint64_t driver = LOAD(pace->driver_ns);
    const uint64_t most = driver ? driver + driver / 4 : GF_TUNE_PACE_UNKNOWN_NS;
    if (trials >= GF_TUNE_PACE_TRIALS && LOAD(pace->staged_ns) > most)
        give_turn(pace);
    else if (trials >= GF_TUNE_PACE_SETTLED)
        STORE(pace->turns, 0);
}

void gf_pace_driver(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns)
{
    struct pace *pace = pace_of(kind, bytes);
    if (pace)
        blend(&pace->driver_ns, bytes, ns);
}
