/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of the event log that the engine reads. */
#ifndef GF_ABI_JOURNAL_API_H
#define GF_ABI_JOURNAL_API_H

#include "base/base.h"

/* Lines of this process, and of children that share its slots. */
struct gf_journal_count {
    uint64_t lines; /* lines passed on for writing */
    /* Lines beyond the limits, or lost. The file cannot report drops after its last line. */
    uint64_t dropped;
};

#endif
