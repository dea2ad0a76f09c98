/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_REPORT_SUMMARY_STALLS_H
#define GF_ENGINE_REPORT_SUMMARY_STALLS_H

#include "engine/report/report_data.h"

/*
 * Writes the exit summary's line about stalls, which is printed even if there was no stall. The
 * text is empty if calls were not timed.
 */
void gf_summary_stalls(const struct gf_report *report, char *buf, size_t size);

#endif
