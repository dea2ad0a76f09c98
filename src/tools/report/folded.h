/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks with their time. */
#pragma once

#include "tools/job/job.h"
#include "tools/job/tally.h"

#include <stdio.h>

/*
 * Prints the stalled microseconds of each stack in the folded format of flame graph tools and
 * speedscope: "main.py:9 in main;train.py:4 in load;free (purge) 16894". The outermost frame is the
 * first one. `by` is GF_BY_COUNT, or a property whose value becomes the first frame.
 */
void gf_folded_print(FILE *out, const struct gf_job *job, enum gf_by by);

/*
 * Prints the microseconds in which GPUs had nothing to do, by path and cause, from reports:
 * "train.py:<module>;train.py:step;sleep 16894". With `by_rank`, the rank is the first frame. Returns
 * false if no report has a path.
 */
bool gf_idle_folded_print(FILE *out, const struct gf_job *job, bool by_rank);

/* Returns the same as {"stacks": [text], "rows": [[rank or -1, index of the stack, us]]}. */
json_t *gf_idle_stacks(const struct gf_job *job);

/*
 * Returns the stalled time as a tree of frames {"name", "us", "children"}. The root is the sum of
 * all stalls, and its children are the outermost frames. The child of an innermost frame is the
 * cause. Frames with less than a thousandth of the time are omitted. The caller drops the
 * reference.
 */
json_t *gf_stack_tree(const struct gf_job *job);
