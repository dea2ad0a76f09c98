/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/answer/answer.h"
#include "tools/job/scan.h"

#include <stdio.h>

/*
 * A trace of PyTorch's profiler (Kineto), which may be gigabytes of JSON. Only the top-level members
 * are parsed; the list of events is copied as bytes.
 */

struct gf_torch_trace {
    struct gf_span text;   /* the whole file, mapped */
    struct gf_span events; /* the value of traceEvents, with its brackets */
    int64_t base_ns;       /* CLOCK_REALTIME at timestamp 0 of the trace; 0 if not given */
};

/*
 * Maps a trace. Returns 0 or -errno: -EINVAL if the file is not a trace, -EPROTONOSUPPORT if it is
 * compressed; -ENOTSUP: a list
 * of events, whose times have no known start. The caller calls gf_bus_error_survive, because the
 * file may be truncated while it is
 * mapped.
 */
int gf_torch_trace_open(const char *path, struct gf_torch_trace *ret);
void gf_torch_trace_close(struct gf_torch_trace *trace);

/*
 * Writes a trace in Chrome's JSON format, for ui.perfetto.dev: each stall as a slice of its thread,
 * other events as instants. If `torch` is not NULL, the file also contains the events of PyTorch's
 * trace, on the same clock (CLOCK_REALTIME).
 */
void gf_perfetto_write(FILE *out, const struct gf_answer *answer,
                       const struct gf_torch_trace *torch);
