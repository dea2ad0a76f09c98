/* SPDX-License-Identifier: Apache-2.0 */
/* Outside the hash: schema numbers, live file, names of metrics. */
#pragma once

#include <stdint.h>

/*
 * The file in memory from which `gpufeed top` reads the report of a running process: a memfd named
 * GF_LIVE_NAME, which the command opens through /proc/PID/task/TID/fd. It contains a header, then
 * the report as JSON. Only the process that the report describes writes the file. A reader loads
 * `sequence` before and after it reads the text. The text is consistent if both values are equal
 * and even.
 */

#define GF_LIVE_NAME "gpufeed-live"
#define GF_LIVE_MAGIC "gpufeed\n"
/* Increased when the format changes so that older readers cannot read it. */
#define GF_LIVE_VERSION 1u

struct gf_live_header {
    char magic[8];
    uint32_t version;
    /*
     * The id of the process that the report describes. A forked child inherits the file; the id
     * then shows that the report is not about the child.
     */
    int32_t pid;
    /* Odd while the process changes the members below; 0 before the first text. */
    uint64_t sequence;
    uint64_t text_at;    /* offset of the text; the next text is written at another offset */
    uint64_t text_bytes; /* length of the text */
    uint64_t written_ns; /* time at which the text was written (CLOCK_MONOTONIC) */
};

/*
 * The Prometheus metrics that GPUFEED_METRICS and `gpufeed report --prometheus` write. Their names
 * are API; docs/reading.md lists them. Each line has the labels `rank` and `pid`.
 */

/* X(token, name, type, help) */
#define GF_METRICS(X)                                                                              \
    X(info, "gpufeed_info", "gauge",                                                               \
      "1; the labels name the job, the program and the version of the library.")                   \
    X(stalls, "gpufeed_stalls_total", "counter", "Calls that stalled, by cause.")                  \
    X(stall_seconds, "gpufeed_stall_seconds_total", "counter", "Durations of calls that stalled.") \
    X(delay_seconds, "gpufeed_run_queue_delay_seconds_total", "counter",                           \
      "Run-queue delay of the threads that the log names.")                                        \
    X(copies, "gpufeed_copies_total", "counter",                                                   \
      "Copies that are large enough for the library to examine.")                                  \
    X(copied_bytes, "gpufeed_copied_bytes_total", "counter",                                       \
      "Bytes of the copies that the library examined.")                                            \
    X(copy_seconds, "gpufeed_copy_seconds_total", "counter",                                       \
      "Total duration of the copies that were timed.")                                             \
    X(gpu_seconds, "gpufeed_gpu_seconds_total", "counter", "Time of each GPU by its state.")       \
    X(gpu_empty_seconds, "gpufeed_gpu_empty_seconds_total", "counter",                             \
      "Time in which a GPU had nothing to do, by what the program did at that time.")              \
    X(steps, "gpufeed_steps_total", "counter",                                                     \
      "Steps that ended, according to the program's marks.")                                       \
    X(step_seconds, "gpufeed_step_seconds_total", "counter",                                       \
      "Time from the first mark of a step to the last mark.")                                      \
    X(run_seconds, "gpufeed_run_seconds", "gauge",                                                 \
      "Time from the first cuInit to the last report.")                                            \
    X(ring_bytes, "gpufeed_staging_ring_bytes", "gauge", "Size of all staging rings.")             \
    X(ring_waits, "gpufeed_staging_ring_waits_total", "counter",                                   \
      "Calls that waited because the staging ring was too small.")                                 \
    X(pinned_cache_bytes, "gpufeed_pinned_cache_bytes", "gauge",                                   \
      "Freed pinned memory that is kept for reuse.")                                               \
    X(pinned_bytes, "gpufeed_pinned_in_use_bytes", "gauge",                                        \
      "Large pinned buffers that the program uses, by NUMA node.")                                 \
    X(kept_bytes, "gpufeed_kept_bytes", "gauge",                                                   \
      "Memory that the library holds and the program does not use.")                               \
    X(heap_bytes, "gpufeed_heap_allocated_bytes", "gauge",                                         \
      "Memory that the program has allocated from the library's heap.")                            \
    X(headroom_bytes, "gpufeed_memory_headroom_bytes", "gauge",                                    \
      "Memory left before the nearest limit.")                                                     \
    X(dropped_lines, "gpufeed_log_dropped_lines_total", "counter",                                 \
      "Lines that could not be written to the log.")                                               \
    X(device_bytes, "gpufeed_device_memory_allocated_bytes_total", "counter",                      \
      "Device memory that the program allocated in total.")                                        \
    X(ended, "gpufeed_ended", "gauge", "1 if the report was written at a normal exit.")

enum gf_metric {
#define GF_METRIC(token, name, type, help) gf_metric_##token,
    GF_METRICS(GF_METRIC)
#undef GF_METRIC
};

struct gf_metric_row {
    const char *name, *type, *help;
};

static inline const struct gf_metric_row *gf_metric_row(enum gf_metric metric)
{
    static const struct gf_metric_row rows[] = {
#define GF_METRIC(token, name, type, help) {name, type, help},
        GF_METRICS(GF_METRIC)
#undef GF_METRIC
    };
    return &rows[metric];
}

/*
 * The numbers of the schemas of the report, of the log, and of the JSON that `gpufeed report` and
 * `gpufeed doctor` print. Raise one if a field is renamed or removed, but not if one is added.
 */
#define GF_REPORT_SCHEMA 2
#define GF_LOG_SCHEMA 2
#define GF_ANSWER_SCHEMA 1
#define GF_DOCTOR_SCHEMA 2
