/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether memory is short, from the kernel's counters. Makes only system calls; allocates nothing.
 * Any thread.
 */
#ifndef GF_OS_PRESSURE_H
#define GF_OS_PRESSURE_H

#include "base/base.h"

#define GF_PRESSURE_UNKNOWN UINT64_MAX

/*
 * For the engine's memory watch: counts since boot, or since the group was created. They include
 * all visible parents, because their limits also apply to this process. A value that no file
 * reports is GF_PRESSURE_UNKNOWN.
 */
struct gf_pressure {
    uint64_t stalled_us; /* time in which some task waited for memory */
    uint64_t limited;    /* how often a group reached its limit */
    /* OOM events: allocations that were about to fail at the limit, and OOM kills. */
    uint64_t killed;
    /*
     * The files that report these values. The first is "memory.pressure" or
     * "/proc/pressure/memory", the second "memory.events" or "memory.failcnt". NULL if no file
     * reports a value.
     */
    const char *stalled_file, *limited_file;
};

/* root: os/procfs.h. About 40 us; errno may change. */
void gf_pressure_read(const char *root, struct gf_pressure *ret);

/*
 * For stalls in the log: totals of the machine and of the process's group, read before and after a
 * call that touches much memory.
 */
struct gf_pressure_counters {
    bool known;
    uint64_t compactions;  /* direct compactions: vmstat compact_stall */
    uint64_t reclaims;     /* direct reclaims: vmstat allocstall_* */
    uint64_t huge;         /* faults that got a huge page: vmstat thp_fault_alloc */
    uint64_t high, max;    /* memory.events of the group; 0 if the file is hidden */
    bool waits_known;      /* whether the group has memory.pressure */
    uint64_t waited_us;    /* total in memory.pressure: time in which a task waited for memory */
    uint64_t throttled_us; /* cpu.stat of the group; 0 if the file is hidden */
};

/* Opens the files. Must be called before the functions below; idempotent. */
void gf_pressure_counters_open(void);

/*
 * Takes about 20 us. `known` is false if /proc/vmstat cannot be read. Any thread, also inside
 * malloc. Keeps errno.
 */
void gf_pressure_counters_read(struct gf_pressure_counters *ret);

/* The increase from `before` to `now`. `known` is true only if both readings are known. */
void gf_pressure_counters_rise(const struct gf_pressure_counters *before,
                               const struct gf_pressure_counters *now,
                               struct gf_pressure_counters *ret);

/*
 * For how many microseconds the group was throttled since the previous call by any thread. Keeps
 * errno.
 */
uint64_t gf_pressure_throttled_since(void);

#endif
