/* SPDX-License-Identifier: Apache-2.0 */
/* The line of the summary at exit that says how long steps took. */
#ifndef GF_ENGINE_REPORT_SUMMARY_STEPS_H
#define GF_ENGINE_REPORT_SUMMARY_STEPS_H

#include "engine/report/report_data.h"

/* Writes "" if no steps were found. */
void gf_summary_steps(const struct gf_report *report, char *buf, size_t size);

#endif
