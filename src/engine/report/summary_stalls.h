/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_ENGINE_REPORT_SUMMARY_STALLS_H
#define GF_ENGINE_REPORT_SUMMARY_STALLS_H

#include "engine/report/report_data.h"

/*
 * The exit summary's line on stalls, which is printed even if there were none. Empty if stalls were
 * not watched.
 */
void gf_summary_stalls(const struct gf_report *report, char *buf, size_t size);

#endif
