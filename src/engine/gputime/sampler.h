/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that samples whether GPUs have work. It sleeps for a random time around the wanted
 * interval, queries the streams (questions.h), and adds the sample to each device's shares. If its
 * own CPU time would exceed 1 % of one CPU, it samples less often.
 */
#pragma once

#include "abi/engine_api.h"
#include "engine/gputime/idle_lines.h"
#include "engine/gputime/shares.h"
#include "engine/gputime/standstill.h"
#include "engine/gputime/step_facts.h"

struct gf_gpu_time {
    bool on;              /* false: nothing was sampled */
    const char *reason;   /* why nothing was sampled; NULL: no work was submitted yet */
    uint64_t interval_us; /* the present mean interval */
    /* CPU time of the sampler's thread and of the threads that read files for it. */
    uint64_t cpu_ns;
    uint64_t questions, refused, longest_question_ns;
    struct gf_cpu_use without_cpu;
    struct gf_standstill standstill;
    struct gf_gpu_time_device {
        bool used;
        uint64_t state_ns[GF_GPU_STATE_COUNT];
        uint64_t cause_ns[GF_HOST_CAUSE_COUNT];
        uint64_t late_ns[GF_LATE_CAUSES]; /* the unknown time before late samples, by cause */
        struct gf_gpu_start start;
        uint64_t exact_ns, samples, gap_count;
        /* Longest first; a gap with `ns` 0 ends the list. */
        struct gf_gpu_gap longest[GF_GAPS_LONGEST];
        struct gf_gpu_gap open; /* the present gap; at exit, that of the program's end */
        /* For each cause, the line with the most time lately. */
        struct gf_cause_line line[GF_HOST_CAUSE_COUNT];
    } device[GF_SUBMIT_DEVICES];
};

/* The sampled time of the device, in all states. */
static inline uint64_t gf_gpu_time_whole(const struct gf_gpu_time_device *device)
{
    uint64_t whole = 0;

    for (unsigned i = 0; i < GF_GPU_STATE_COUNT; i++)
        whole += device->state_ns[i];
    return whole;
}

/*
 * Makes the hooks record submissions from the first one on. Starts no thread. reason: why nothing is
 * sampled, or NULL.
 */
void gf_sampler_prepare(const struct gf_preload *preload, gf_step_clock_fn *clock_loss,
                        const char *reason);
/*
 * Starts the sampler's thread, unless it was started before or nothing is sampled. The caller must
 * have blocked all signals; the new thread inherits its signal mask.
 */
void gf_sampler_start(void);
/*
 * Called at exit. Prevents further queries of the sampler's thread, and waits up to 20 ms until its
 * present queries have ended. Makes no CUDA call.
 */
void gf_sampler_stop(void);
/*
 * Reads the results. Some sums may include one sample more than others. May be called on any
 * thread.
 */
void gf_sampler_read(struct gf_gpu_time *ret);

/* Reads a path of a device. Returns false if there are no more. */
bool gf_sampler_read_path(unsigned device, unsigned number, struct gf_idle_path *ret);
/* Reads only each device's time by state. All times are 0 if nothing is sampled. */
void gf_sampler_read_states(uint64_t ret[GF_SUBMIT_DEVICES][GF_GPU_STATE_COUNT]);
