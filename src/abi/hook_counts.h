/* SPDX-License-Identifier: Apache-2.0 */
/* How often each hooked function was called, for the report. */
#ifndef GF_ABI_HOOK_COUNTS_H
#define GF_ABI_HOOK_COUNTS_H

#include "base/base.h"

struct gf_hook_counts {
    const char *name;
    uint64_t calls; /* number of calls by the program */

    /*
     * Only for hooks of copies: the number of copies, and their bytes. A call for a batch makes
     * several copies.
     */
    uint64_t copies, bytes;
    /* The members from here on count only copies that are large enough for staging. */
    uint64_t offered, offered_bytes; /* offered to the engine */
    /*
     * Copies that were not offered to the engine, because the engine stages no copy with such a
     * shape or source access order.
     */
    uint64_t unfit, unfit_bytes;
};

/* Returns false to end the iteration. */
typedef bool gf_hook_counts_fn(void *closure, const struct gf_hook_counts *counts);
/* Calls fn once for each hook. May be called on any thread. */
typedef void gf_hook_counts_each(gf_hook_counts_fn *fn, void *closure);

#endif
