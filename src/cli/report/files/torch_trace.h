/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace of PyTorch's profiler (Kineto), which may be gigabytes of JSON. Only the top-level members
 * are parsed; the list of events is copied as bytes.
 */
#ifndef GF_CLI_REPORT_FILES_TORCH_TRACE_H
#define GF_CLI_REPORT_FILES_TORCH_TRACE_H

#include "cli/report/input/scan.h"

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

#endif
