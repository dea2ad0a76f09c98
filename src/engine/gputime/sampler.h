/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that samples whether GPUs have work. It sleeps for random times around the wanted
 * interval, queries the streams (questions.h), and adds to each device's shares. It keeps its own
 * CPU time below 1 % of one CPU by sampling less often.
 */
#ifndef GF_ENGINE_GPUTIME_SAMPLER_H
#define GF_ENGINE_GPUTIME_SAMPLER_H

#include "abi/gputime_api.h"
#include "abi/python_api.h"
#include "engine/gputime/gaps.h"
#include "engine/gputime/cause_lines.h"

struct gf_gpu_time {
    bool on;              /* false: nothing was sampled */
    const char *reason;   /* why not; NULL: no work was submitted yet */
    unsigned hz;          /* the requested rate */
    uint64_t interval_us; /* the present mean interval */
    uint64_t cpu_ns;      /* CPU time of the thread and of the readings that it starts */
    uint64_t questions, refused, longest_question_ns;
    struct gf_gpu_time_device {
        bool used;
        uint64_t state_ns[GF_GPU_STATE_COUNT];
        uint64_t cause_ns[GF_HOST_CAUSE_COUNT];
        uint64_t exact_ns, samples, gap_count;
        struct gf_gpu_gap longest[GF_GAPS_LONGEST]; /* longest first; ns 0: no further gap */
        /* For each cause, the line with the most time. */
        struct gf_cause_line line[GF_HOST_CAUSE_COUNT];
    } device[GF_SUBMIT_DEVICES];
};

struct gf_sampler_setup {
    const struct gf_cuda *cuda;
    struct gf_submit_table *table;
    bool (*python)(struct gf_python *ret); /* finds Python; false if not found */
    unsigned hz;
    const char *reason; /* NULL, or why nothing is sampled */
};

/* Starts recording, so that the first submission is seen. Starts no thread. */
void gf_sampler_prepare(const struct gf_sampler_setup *setup);
/* Starts the thread, once, with all signals blocked. Does nothing if nothing is sampled. */
void gf_sampler_start(void);
/*
 * Called at exit. The thread makes no further query. Waits up to 20 ms for queries under way. Makes
 * no CUDA call.
 */
void gf_sampler_stop(void);
/* Any thread. The sums may be one sample apart. */
void gf_sampler_read(struct gf_gpu_time *ret);
/* Gets only each device's time by state. All times are 0 if nothing is sampled. */
void gf_sampler_read_states(uint64_t ret[GF_SUBMIT_DEVICES][GF_GPU_STATE_COUNT]);

#endif
