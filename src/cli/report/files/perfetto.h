/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_FILES_PERFETTO_H
#define GF_CLI_REPORT_FILES_PERFETTO_H

#include "cli/report/output/answer.h"
#include "cli/report/files/torch_trace.h"

#include <stdio.h>

/*
 * Writes a trace in the JSON format of Chrome, which ui.perfetto.dev opens: each stall as a slice of
 * its thread, other events as instants. With a trace of PyTorch (or NULL), its events stand in the
 * same file on the same clock, CLOCK_REALTIME.
 */
bool gf_perfetto_write(FILE *out, const struct gf_answer *answer,
                       const struct gf_torch_trace *torch);

#endif
