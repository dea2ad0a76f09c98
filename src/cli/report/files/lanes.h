/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a page's timeline: each process's GPU, copies, steps and threads, in the order of the
 * ranks. The number of rows is limited to what a browser can draw.
 */
#ifndef GF_CLI_REPORT_FILES_LANES_H
#define GF_CLI_REPORT_FILES_LANES_H

#include "cli/report/output/answer.h"

#define GF_LANES_THREADS 128
#define GF_LANES_PROCESSES 40

enum gf_lane_kind { GF_LANE_GPU, GF_LANE_COPIES, GF_LANE_STEPS, GF_LANE_THREAD, GF_LANE_KINDS };

struct gf_lane {
    enum gf_lane_kind kind;
    uint32_t process;
    uint32_t thread; /* only for the lane of a thread */
};

struct gf_lanes {
    struct gf_lane *list;
    size_t count;
    int *of_thread;                  /* lane of each thread; -1 without one */
    int *of_process[GF_LANE_THREAD]; /* lane of each process by kind; -1 without one */
    /*
     * Number of threads with stalls or copies, and of processes with activity or steps, that have
     * no lane.
     */
    size_t hidden_threads, hidden_processes;
};

/*
 * Chooses the threads with the most time in stalls and long copies, and the processes whose GPUs
 * had nothing to do for the longest time. Returns false if memory is short.
 */
bool gf_lanes_make(const struct gf_answer *answer, struct gf_lanes *ret);
void gf_lanes_free(struct gf_lanes *lanes);

/* Writes the name of a lane, such as "rank 3: copies" or "python3 1234, rank 3". */
const char *gf_lane_name(const struct gf_job *job, const struct gf_lane *lane, char *buf,
                         size_t size);

extern const char *const gf_lane_kinds[GF_LANE_KINDS];

#endif
