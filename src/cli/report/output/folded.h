/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_FOLDED_H
#define GF_CLI_REPORT_OUTPUT_FOLDED_H

#include "cli/report/sums/tally.h"

#include <stdio.h>

/*
 * Prints the stalled microseconds of each stack in the folded format of flame graph tools and
 * speedscope: "main.py:9 in main;train.py:4 in load;free (purge) 16894". The outermost frame is the
 * first one. `by` is GF_BY_COUNT, or a property whose value becomes the first frame. Returns false
 * if memory is short.
 */
bool gf_folded_print(FILE *out, const struct gf_job *job, enum gf_by by);

#endif
