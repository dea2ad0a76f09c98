/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_RANK_TEXT_H
#define GF_CLI_REPORT_OUTPUT_RANK_TEXT_H

#include "cli/report/output/answer.h"

#include <stdio.h>

/*
 * Prints a row for each rank, at most `top`: ranks that differ first, then those with the longest
 * steps. Called after gf_rank_compare.
 */
void gf_rank_text_print(FILE *out, const struct gf_answer *answer, unsigned top);

#endif
