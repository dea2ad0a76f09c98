/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the line of the summary about copies and pinned memory. */
#ifndef GF_ENGINE_REPORT_SUMMARY_TRANSFERS_H
#define GF_ENGINE_REPORT_SUMMARY_TRANSFERS_H

#include "engine/report/transfer_sums.h"

/* Writes an empty text if almost nothing was copied. each_hook may be NULL. */
void gf_summary_transfers(const struct gf_report_transfers *transfers,
                          gf_hook_counts_each *each_hook, char *buf, size_t size);

#endif
