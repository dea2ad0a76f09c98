/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of the copies of all processes, from their reports. */
#ifndef GF_CLI_REPORT_SUMS_COPIES_H
#define GF_CLI_REPORT_SUMS_COPIES_H

#include "cli/report/input/job.h"

enum gf_way { GF_WAY_STAGED, GF_WAY_PINNED, GF_WAY_DRIVER, GF_WAY_OTHER, GF_WAYS };
enum gf_direction { GF_TO_DEVICE, GF_FROM_DEVICE, GF_DIRECTIONS };

/* The names of ways and directions in a report. */
extern const char *const gf_way_names[GF_WAYS];
extern const char *const gf_direction_names[GF_DIRECTIONS];

struct gf_copy_sum {
    double calls, bytes, duration_s;
};

#define GF_COPY_REASONS 32

struct gf_copy_reason {
    char name[32];
    struct gf_copy_sum sum;
};

struct gf_copies {
    unsigned reports; /* number of reports that count copies, even if all counts are 0 */
    struct gf_copy_sum ways[GF_DIRECTIONS][GF_WAYS];
    struct gf_copy_reason reasons[GF_DIRECTIONS]
                                 [GF_COPY_REASONS]; /* sorted, the most bytes first */
    unsigned reason_count[GF_DIRECTIONS];
    struct gf_copy_sum small;
    double stream_waits, pinning_saves_s;
    /* Why no copy is staged, from the first report with a reason; "" without one. */
    char staging_off[256];
};

/* Adds to the sums the copies that a report counts. */
void gf_copies_add(struct gf_copies *copies, const json_t *report);

/* Sorts the reasons, after all reports were added. */
void gf_copies_finish(struct gf_copies *copies);

/* Returns the rate in 10^9 bytes per second; 0 if no copy was timed. */
double gf_copy_rate(const struct gf_copy_sum *sum);

#endif
