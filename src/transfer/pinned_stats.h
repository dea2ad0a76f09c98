/* SPDX-License-Identifier: Apache-2.0 */
/* What became of the program's requests for pinned memory. Makes no CUDA call. */
#ifndef GF_TRANSFER_PINNED_STATS_H
#define GF_TRANSFER_PINNED_STATS_H

#include "base/base.h"

/* Why an allocation was left to the driver. */
enum gf_pinned_reason {
    gf_pinned_odd,     /* flags, or a size that is never served */
    gf_pinned_context, /* no context, or one that cannot be known */
    gf_pinned_memory,  /* too near to a limit, or the system refused */
    gf_pinned_slow,    /* too few threads to be faster */
    gf_pinned_devices, /* the process uses a second one: whether registered memory serves that is open */
    gf_pinned_failed,  /* turned off, or registering failed */
    GF_PINNED_REASONS,
};

const char *gf_pinned_reason_name(enum gf_pinned_reason reason);

struct gf_pinned_stats {
    uint64_t large_calls, large_bytes;   /* served by mappings of ours */
    uint64_t large_ns;                   /* that this took */
    uint64_t small_calls, small_bytes;   /* the driver's own, out of mappings that may have been kept */
    uint64_t driver_calls[GF_PINNED_REASONS], driver_bytes[GF_PINNED_REASONS];
    uint64_t placed_calls, placed_bytes; /* of the program's own memory, before registering it */
    uint64_t kept_bytes;                 /* now, by nothing but us */
    uint64_t trims;                      /* times that kept memory was given back */
};

extern struct gf_pinned_stats gf_pinned_counts; /* atomic; all but kept_bytes */

/* Any thread; one moment's values of each, not of all. */
void gf_pinned_read(struct gf_pinned_stats *ret);

/* What was done, as a line at GPUFEED_VERBOSE=2; none where nothing was. */
void gf_pinned_say(void);

#endif
