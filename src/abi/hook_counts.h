/* SPDX-License-Identifier: Apache-2.0 */
/* How often each hooked function was called, for the report. */
#ifndef GF_ABI_HOOK_COUNTS_H
#define GF_ABI_HOOK_COUNTS_H

#include "base/base.h"

struct gf_hook_counts {
    const char *name;
    uint64_t calls; /* calls by the program */

    /* For copies only: all copies and their bytes. A batch contains several copies. */
    uint64_t copies, bytes;
    /* Counts of the copies that are large enough for staging. */
    uint64_t offered, offered_bytes; /* offered to the engine */
    /*
     * Copies that are not offered to the engine, because it stages no copy of their shape or source
     * access order.
     */
    uint64_t unfit, unfit_bytes;
};

/* Returns false to end the iteration. */
typedef bool gf_hook_counts_fn(void *closure, const struct gf_hook_counts *counts);
/* Calls fn for each hook. Any thread. */
typedef void gf_hook_counts_each(gf_hook_counts_fn *fn, void *closure);

#endif
