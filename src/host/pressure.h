/* SPDX-License-Identifier: Apache-2.0 */
/* Whether memory is short, as the kernel counts it; below a root that tests move. */
#ifndef GF_HOST_PRESSURE_H
#define GF_HOST_PRESSURE_H

#include "base/base.h"

#define GF_PRESSURE_UNKNOWN UINT64_MAX

/* Counts since boot, or since the group was made; GF_PRESSURE_UNKNOWN where nothing tells. */
struct gf_pressure {
    uint64_t stalled_us; /* in which some task waited for memory */
    uint64_t limited;    /* times at which the group, or one above it, ran into its limit */
    uint64_t killed;     /* times at which somebody was killed, or nearly, for lack of memory */
    /* Which files told: "memory.pressure" (the group's), "/proc/pressure/memory"; "memory.events",
     * "memory.failcnt"; NULL. */
    const char *stalled_file, *limited_file;
};

/* Allocates nothing; about 40 us. */
void gf_pressure_read(const char *root, struct gf_pressure *ret);

#endif
