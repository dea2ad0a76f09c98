/* SPDX-License-Identifier: Apache-2.0 */
/* Merges several logs by time. Lines of one log stay in their order. */
#ifndef GF_CLI_REPORT_INPUT_LOG_MERGE_H
#define GF_CLI_REPORT_INPUT_LOG_MERGE_H

#include "cli/report/input/event.h"
#include "cli/report/input/job_events.h"
#include "cli/report/input/line_reader.h"
#include "cli/report/input/sources.h"

/* A line of a log. is_event is false for a damaged line. */
struct gf_merged_line {
    const struct gf_source *source;
    uint64_t number;
    struct gf_span text; /* valid until the next line is read */
    struct gf_event event;
    bool is_event;
    struct gf_job_log *log; /* the processes of the line's log */
};

struct gf_merge_input {
    const struct gf_source *source;
    struct gf_line_reader lines;
    struct gf_job_log log;
    struct gf_merged_line line;
    double time; /* time of the last line that has a time */
    bool open;
};

struct gf_log_merge {
    struct gf_merge_input *inputs;
    size_t count;
    struct gf_merge_input *last; /* the input whose line was returned last */
};

/*
 * Opens all sources. Returns false if memory is short, or if a log cannot be opened; each such log
 * is named on standard error.
 */
bool gf_log_merge_begin(struct gf_log_merge *merge, const struct gf_sources *sources);

/* Returns the earliest remaining line; NULL at the end. */
struct gf_merged_line *gf_log_merge_next(struct gf_log_merge *merge);

/* Skips the rest of the log whose line was returned last. */
void gf_log_merge_drop(struct gf_log_merge *merge);

/*
 * Closes all inputs. Returns false if a log could not be read; each such log is named on standard
 * error.
 */
bool gf_log_merge_end(struct gf_log_merge *merge);

#endif
