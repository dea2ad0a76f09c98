/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/answer/answer.h"

/*
 * Compares each rank with the median of all ranks: stalled time, run-queue delay, duration of
 * steps, time of the GPU without work, rate of copies, and end. Adds a sentence to
 * answer->differing for each rank that differs, first for the rank with the largest excess_s. Sets
 * excess_s in the table, and answer->slow_rank. Needs at least two ranks.
 */
void gf_rank_compare(struct gf_answer *answer);
