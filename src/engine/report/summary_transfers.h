/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the line of the summary about copies and pinned memory. */
#ifndef GF_ENGINE_REPORT_SUMMARY_TRANSFERS_H
#define GF_ENGINE_REPORT_SUMMARY_TRANSFERS_H

#include "engine/report/transfer_sums.h"

/* Writes an empty text if almost nothing was copied. each_hook may be NULL. */
void gf_summary_transfers(const struct gf_report_transfers *transfers,
                          gf_hook_counts_each *each_hook, char *buf, size_t size);

/* Waits that take less than one part in this many of the time are not mentioned. */
#define GF_COPY_WAIT_SHARE 100u

/*
 * Writes the end of the line, which names the line of Python whose copies waited longest for their
 * stream, and what helps. Writes an empty text if these waits take less than 1 % of the time.
 */
void gf_summary_copy_waits(const struct gf_copy_wait_source *source, char *buf, size_t size);

/* Writes a sentence for the log about the waits of a line in an interval, and what helps. */
void gf_summary_copy_wait(const struct gf_copy_wait_line *line, uint64_t interval_ns, char *buf,
                          size_t size);

#endif
