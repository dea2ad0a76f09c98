/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences of an answer and its forms, each subject in a file of its own. */
#pragma once

#include "tools/answer/answer.h"

#include <stdio.h>

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
 * standing.c: adds a sentence if a process stood still when its report was written
 * (docs/log.md#standstill): in which step, for how long, and where, grouped by ranks. Returns false if
 * none did.
 */
bool gf_standing_say(struct gf_answer *answer);

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
void gf_answer_print(FILE *out, const struct gf_answer *answer, unsigned top, enum gf_by by);

/* Returns what was different in a slow step, or "" if the process's report does not say it. */
const char *gf_step_reason(const struct gf_job_process *process, const struct gf_step *step);

/*
 * answer_json.c: returns an answer as JSON (docs/schema/answer.def), with at most `top` rows in a table,
 * and at most `most` ranks and texts of a kind. `by` is as in gf_answer_print. The caller drops the
 * reference.
 */
json_t *gf_answer_json(const struct gf_answer *answer, unsigned top, enum gf_by by, size_t most);
