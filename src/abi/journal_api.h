/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of the event log. The engine reads them. */
#ifndef GF_ABI_JOURNAL_API_H
#define GF_ABI_JOURNAL_API_H

#include "base/base.h"

/* Counts of log lines, of this process and of its children that share its slots. */
struct gf_journal_count {
    uint64_t lines; /* lines that were passed on for writing */
    /*
     * Lines that were not written: beyond the log's rate or size, too long, without a free slot, or
     * lost when a write failed or a thread ended. The file itself cannot report lines that are
     * dropped after its last line.
     */
    uint64_t dropped;
};

#endif
