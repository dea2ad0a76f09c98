/* SPDX-License-Identifier: Apache-2.0 */
/* How often a hooked function was called, for the report. */
#ifndef GF_OBSERVE_TALLY_H
#define GF_OBSERVE_TALLY_H

#include "base/base.h"

struct gf_tally {
    const char *name;
    uint64_t calls; /* by the program */

    /* Copies only: all (a batch has several), and what became of those that are large enough. */
    uint64_t copies, bytes;
    uint64_t offered, offered_bytes; /* to staging */
    uint64_t unfit, unfit_bytes;     /* of a shape or order of reading that is never staged */
};

/* Returns false to stop. */
typedef bool gf_tally_see(void *closure, const struct gf_tally *tally);
/* Shows all of them. */
typedef void gf_tally_each(gf_tally_see *see, void *closure);

#endif
