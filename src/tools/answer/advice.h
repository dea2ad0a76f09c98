/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/answer/answer.h"

/*
 * Adds remedies to answer->helps: first for the rank that is slower than the others, then for
 * causes that left GPUs without work, then for lost time of threads. In each group, the remedy with
 * the largest gain is first. Remedies whose gain is unknown are last. Called after gf_rank_compare.
 */
void gf_advice_say(struct gf_answer *answer);

/* Adds the notes to the answer: what its figures lack, and which input was skipped. */
void gf_notes_say(struct gf_answer *answer);
