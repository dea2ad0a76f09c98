/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the kernel's counters that show whether memory is short. The functions make only system
 * calls and allocate nothing. They may be called on any thread.
 */
#pragma once

#include "base/base.h"

#define GF_PRESSURE_UNKNOWN UINT64_MAX

/*
 * Counters for the engine's memory watch, since boot or since the group was created. They include
 * the counters of all visible parent groups, because the limits of parents also apply to this
 * process. A value that no file reports is GF_PRESSURE_UNKNOWN.
 */
struct gf_pressure {
    uint64_t stalled_us; /* time in which some task waited for memory */
    uint64_t limited;    /* how often a group reached its limit */
    /* Number of OOM events: allocations that were about to fail at the limit, and OOM kills. */
    uint64_t killed;
    /*
     * The files that reported stalled_us and limited. The first is "memory.pressure" or
     * "/proc/pressure/memory", the second "memory.events" or "memory.failcnt". NULL if no file
     * reported the value.
     */
    const char *stalled_file, *limited_file;
};

/* Reads the counters, which takes about 40 us. root: see os/procfs.h. errno may change. */
void gf_pressure_read(const char *root, struct gf_pressure *ret);

/*
 * Counters for stalls in the log: totals of the machine and of the process's group. They are read
 * before and after a call that touches much memory.
 */
struct gf_pressure_counters {
    bool known;
    uint64_t compactions;  /* direct compactions: compact_stall of /proc/vmstat */
    uint64_t reclaims;     /* direct reclaims: allocstall_* of /proc/vmstat */
    uint64_t huge;         /* faults that got a huge page: thp_fault_alloc of /proc/vmstat */
    uint64_t high, max;    /* memory.events of the group; 0 if it cannot be read */
    bool waits_known;      /* whether the group has memory.pressure */
    uint64_t waited_us;    /* total in memory.pressure: time in which a task waited for memory */
    uint64_t throttled_us; /* throttled time in cpu.stat of the group; 0 if it cannot be read */
};

/*
 * Opens the files of the counters. Must be called before the functions below. Later calls have no
 * effect.
 */
void gf_pressure_counters_open(void);

/*
 * Reads the counters, which takes about 20 us. Sets ret->known to false if /proc/vmstat cannot be
 * read. May be called on any thread, also inside malloc. Keeps errno.
 */
void gf_pressure_counters_read(struct gf_pressure_counters *ret);

/*
 * Computes the increase from `before` to `now`. ret->known is true only if both readings are known.
 */
void gf_pressure_counters_rise(const struct gf_pressure_counters *before,
                               const struct gf_pressure_counters *now,
                               struct gf_pressure_counters *ret);

/*
 * Returns for how many microseconds the group was throttled until now; 0 if unknown. Keeps errno.
 */
uint64_t gf_pressure_throttled(void);

/*
 * Returns for how many microseconds the group was throttled since the previous call of this
 * function on any thread. Keeps errno.
 */
uint64_t gf_pressure_throttled_since(void);
