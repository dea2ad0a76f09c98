/* SPDX-License-Identifier: Apache-2.0 */
/* Reads several logs as one, by time. Each log alone keeps its order. */
#ifndef GF_CLI_REPORT_INPUT_LOG_MERGE_H
#define GF_CLI_REPORT_INPUT_LOG_MERGE_H

#include "cli/report/input/event.h"
#include "cli/report/input/job_events.h"
#include "cli/report/input/line_reader.h"
#include "cli/report/input/sources.h"

/* A line of a log. It need not be an event. */
struct gf_merged_line {
    const struct gf_source *source;
    uint64_t number;
    struct gf_span text; /* valid until the next line is read */
    struct gf_event event;
    bool is_event;
    struct gf_job_log *log; /* the processes of this log */
};

struct gf_merge_input {
    const struct gf_source *source;
    struct gf_line_reader lines;
    struct gf_job_log log;
    struct gf_merged_line line;
    double time; /* of the line; that of the line before if it has none */
    bool open;
};

struct gf_log_merge {
    struct gf_merge_input *inputs;
    size_t count;
    struct gf_merge_input *last; /* whose line was returned last */
};

/*
 * Opens all sources. Logs that cannot be opened are reported on standard error. False if there was
 * one, or if memory is short.
 */
bool gf_log_merge_begin(struct gf_log_merge *merge, const struct gf_sources *sources);

/* The earliest line that was not returned yet; NULL at the end. */
struct gf_merged_line *gf_log_merge_next(struct gf_log_merge *merge);

/* Skips the rest of the log that the last line came from. */
void gf_log_merge_drop(struct gf_log_merge *merge);

/* Closes all inputs. False if one could not be read; that was reported on standard error. */
bool gf_log_merge_end(struct gf_log_merge *merge);

#endif
