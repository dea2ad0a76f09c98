/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to "what did the program and its GPU wait for?". Each output format prints it. */
#pragma once

#include "tools/answer/amount.h"
#include "tools/job/job.h"
#include "tools/job/job_tables.h"
#include "tools/job/job_input.h"

/*
 * A number in the section gpu_time of the reports: its path, its sum over the reports that have it,
 * and how many reports have it.
 */
struct gf_gpu_number {
    char name[96];
    double sum;
    unsigned count;
};

#define GF_GPU_NUMBERS 256

struct gf_answer {
    const struct gf_job *job;
    const struct gf_read_counts *counts;
    struct gf_tally causes, sites, threads, ranks;
    struct gf_rank_table table;
    struct gf_steps steps; /* marked steps in logs */
    struct gf_reported_list reported_steps;
    struct gf_copies copies;
    struct gf_gpu_time gpu_time;     /* of the whole job */
    struct gf_logged_gpu logged_gpu; /* with --since, from then on */
    struct gf_gpu_number gpu[GF_GPU_NUMBERS];
    unsigned gpu_count;
    double from, to; /* when the job began and ended; 0 if unknown */
    uint64_t stalls, stall_us;
    uint32_t longest_us;
    uint64_t delay_ms, throttled_ms, fault_ms, dropped;
    uint64_t unlogged; /* stalls that reports count and logs lack, except for dropped lines */
    size_t processes, hosts, running, observing, reported;
    /* Processes without a report whose log lacks their exit, and the one whose log ended first. */
    size_t unended;
    const struct gf_job_process *first_unended;
    /* The rank that exceeds the median of all ranks by the most time; -1 if none differs. */
    int64_t slow_rank;
    struct gf_onset onset;
    struct gf_lines verdict, differing, helps, notes;
};

/*
 * The answer refers to the job and the counts, so the caller must not change these while the answer
 * exists.
 */
void gf_answer_make(const struct gf_job *job, const struct gf_read_counts *counts,
                    struct gf_answer *ret);
void gf_answer_free(struct gf_answer *answer);
