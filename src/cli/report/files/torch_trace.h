/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace of PyTorch's profiler (Kineto): up to some gigabytes of JSON. Only the members around the
 * list of events are parsed; the events are copied as bytes.
 */
#ifndef GF_CLI_REPORT_FILES_TORCH_TRACE_H
#define GF_CLI_REPORT_FILES_TORCH_TRACE_H

#include "cli/report/input/scan.h"

struct gf_torch_trace {
    struct gf_span text;   /* the whole file, mapped */
    struct gf_span events; /* the value of traceEvents, with its brackets */
    int64_t base_ns;       /* CLOCK_REALTIME at which its ts is 0; 0 if it does not say so */
};

/*
 * Maps a trace. 0 or -errno; -EINVAL: not a trace; -EPROTONOSUPPORT: compressed. If the file is
 * truncated meanwhile, the rest reads as zeros after gf_bus_error_survive.
 */
int gf_torch_trace_open(const char *path, struct gf_torch_trace *ret);
void gf_torch_trace_close(struct gf_torch_trace *trace);

#endif
