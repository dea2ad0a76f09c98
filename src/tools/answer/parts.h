/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to "what did the program and its GPU wait for?", its sentences and its forms, each subject in a
 * file of its own. Each output format prints it.
 */
#pragma once

#include "tools/job/job_input.h"
#include "tools/job/job_tables.h"

#include <stdio.h>

/* amount.c: format numbers with units, by gf_text. */

/* A duration: "812 us", "16.9 ms", "8.2 s", "2.1 h". */
const char *gf_amount_time(double seconds);
/* A size: "8 MiB", "1.5 GiB". */
const char *gf_amount_bytes(double bytes);
/* A rate: "3.6 GB/s", "83 MB/s", "0.5 MB/s". */
const char *gf_amount_rate(double gb_per_s);
/* A share: "0.3 %", "67 %". */
const char *gf_amount_share(double part, double whole);
/*
 * A time as local time, without or with the date: "08:51:09", "2026-11-23 08:51:09"; "-" if the
 * time is unknown.
 */
const char *gf_amount_clock(double time, bool with_date);
/* A number with its noun: "1 stall", "12 stalls". */
const char *gf_amount_of(double count, const char *noun);

/* A list of sentences. */
struct gf_lines {
    struct gf_text_pool texts;
    const char **list; /* in the order in which they were added */
    size_t count;
};

/* Adds a sentence, unless the list already contains it. */
void gf_lines_add(struct gf_lines *lines, const char *format, ...) GF_PRINTF(2, 3);
void gf_lines_free(struct gf_lines *lines);

/* helps.c: the tables of helps.def and abi/reasons.def, whose names are in logs and reports. */
enum gf_help {
    gf_help_stall,  /* causes of stalls */
    gf_help_reason, /* why copies were not staged */
    gf_help_state,  /* states of a GPU */
    gf_help_host,   /* what the program did while a GPU had nothing to do */
};

/* Returns the meaning of a name in words. An unknown name is returned itself; of a stall, "". */
const char *gf_help_words(enum gf_help of, const char *name);

/* Returns the remedy; "" if none is known. */
const char *gf_help_remedy(enum gf_help of, const char *name);

/* Prints the causes of stalls with their meaning, a line each. */
void gf_helps_print_causes(void);

/*
 * answer.c: a number in the section gpu_time of the reports: its path, its sum over the reports that have it,
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

/*
 * sentences.c: adds the sentences of an answer: the verdict, ranks that differ, what helps, and notes
 * on the data. A user may read only the verdict's first sentence, so this sentence alone must answer
 * the question.
 */
void gf_verdict_say(struct gf_answer *answer);

/*
 * Returns a text such as "4 ranks on 2 hosts, 12 processes, 300 s from 2026-11-23 08:51:09 to
 * 08:56:09".
 */
const char *gf_verdict_scope(const struct gf_answer *answer);

/*
 * rank_compare.c: compares each rank with the median of all ranks: stalled time, run-queue delay,
 * duration of steps, time of the GPU without work, rate of copies, and end. Adds a sentence to
 * answer->differing for each rank that differs, first for the rank with the largest excess_s. Sets
 * excess_s in the table, and answer->slow_rank. Needs at least two ranks.
 */
void gf_rank_compare(struct gf_answer *answer);

/*
 * advice.c: adds remedies to answer->helps: first for the rank that is slower than the others, then for
 * causes that left GPUs without work, then for lost time of threads. In each group, the remedy with
 * the largest gain is first. Remedies whose gain is unknown are last. Called after gf_rank_compare.
 */
void gf_advice_say(struct gf_answer *answer);

/* Adds the notes to the answer: what its figures lack, and which input was skipped. */
void gf_notes_say(struct gf_answer *answer);

/*
 * answer_text.c: prints an answer that fits on one screen: verdict, stalls, copies, ranks, what helps.
 * Tables have at most `top` rows. If `by` is not GF_BY_COUNT, prints only the table by this property.
 */
void gf_answer_print(const struct gf_answer *answer, unsigned top, enum gf_by by);

/* Returns what was different in a slow step, or "" if the process's report does not say it. */
const char *gf_step_reason(const struct gf_job_process *process, const struct gf_step *step);

/*
 * answer_json.c: returns an answer as JSON (docs/schema/answer.def), with at most `top` rows in a table,
 * and at most `most` ranks and texts of a kind. `by` is as in gf_answer_print. The caller drops the
 * reference.
 */
json_t *gf_answer_json(const struct gf_answer *answer, unsigned top, enum gf_by by, size_t most);
