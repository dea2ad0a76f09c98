/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_FILES_PERFETTO_H
#define GF_CLI_REPORT_FILES_PERFETTO_H

#include "cli/report/output/answer.h"
#include "cli/report/files/torch_trace.h"

#include <stdio.h>

/*
 * Writes a trace in Chrome's JSON format, for ui.perfetto.dev: each stall as a slice of its thread,
 * other events as instants. If `torch` is not NULL, the file also contains the events of PyTorch's
 * trace, on the same clock (CLOCK_REALTIME).
 */
bool gf_perfetto_write(FILE *out, const struct gf_answer *answer,
                       const struct gf_torch_trace *torch);

#endif
