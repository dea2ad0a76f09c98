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
 * For the watch on memory: counts since boot, or since the group was created. They cover the group
 * and all its visible parents, whose limits stop this process as well. A value that no file reports
 * is GF_PRESSURE_UNKNOWN.
 */
struct gf_pressure {
    uint64_t stalled_us; /* time in which some task waited for memory */
    uint64_t limited;    /* number of times that a group reached its limit */
    uint64_t killed;     /* number of times that the OOM killer was invoked, or nearly was */
    /*
     * The files: "memory.pressure" (the group's) or "/proc/pressure/memory"; "memory.events" or
     * "memory.failcnt"; NULL if no file reports the value.
     */
    const char *stalled_file, *limited_file;
};

/* root: os/procfs.h. About 40 us; errno may change. */
void gf_pressure_read(const char *root, struct gf_pressure *ret);

/*
 * For stalls in the log: totals of the machine and of the process's own group, read before and
 * after a call that touches much memory.
 */
struct gf_pressure_counters {
    bool known;
    uint64_t compactions;  /* direct ones: vmstat compact_stall */
    uint64_t reclaims;     /* direct ones: vmstat allocstall_* */
    uint64_t huge;         /* faults that got a huge page: vmstat thp_fault_alloc */
    uint64_t high, max;    /* memory.events of the group; 0 if the file is hidden */
    bool waits_known;      /* whether the group has memory.pressure */
    uint64_t waited_us;    /* total of that file: time in which a task waited for memory */
    uint64_t throttled_us; /* cpu.stat of the group; 0 if the file is hidden */
};

/* Finds the group's files. Must run before the first of the functions below; idempotent. */
void gf_pressure_counters_open(void);

/*
 * Takes about 20 us. known is false if /proc/vmstat cannot be read. Also inside malloc. Keeps
 * errno.
 */
void gf_pressure_counters_read(struct gf_pressure_counters *ret);

/* The increase from before to now; known only if both readings are. */
void gf_pressure_counters_rise(const struct gf_pressure_counters *before,
                               const struct gf_pressure_counters *now,
                               struct gf_pressure_counters *ret);

/*
 * How long the group was throttled since the last call of this function by any thread. Keeps errno.
 */
uint64_t gf_pressure_throttled_since(void);

#endif
