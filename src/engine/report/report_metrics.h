/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report's main numbers as metrics in the text format of Prometheus (abi/formats.h). */
#pragma once

#include "engine/report/report_data.h"

/* Enough bytes for all metrics of a process. */
#define GF_REPORT_METRICS_BYTES ((size_t)128 << 10)

/* Writes the metrics into buf. Returns the length of the text; 0 if it does not fit. */
size_t gf_report_metrics(const struct gf_report *report, char *buf, size_t size);
