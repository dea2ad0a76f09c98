/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the lines about the placement for standard error: one line when the GPU is known, and one
 * at exit.
 */
#ifndef GF_ENGINE_REPORT_SUMMARY_H
#define GF_ENGINE_REPORT_SUMMARY_H

#include "engine/report/report_data.h"

/*
 * Writes the line after a decision: "GPU 0 NVIDIA H200 0000:41:00.0 node 1 (sysfs): 18 threads and
 * 8 worker threads on CPUs 8-15; memory prefers node 1", or the reason why nothing was bound.
 */
void gf_summary_verdict(const struct gf_decision *decision, const struct gf_options *options,
                        char *buf, size_t size);

/* Writes the line at exit: the placement as it was read back from the kernel. */
void gf_summary_exit(const struct gf_report *report, char *buf, size_t size);

#endif
