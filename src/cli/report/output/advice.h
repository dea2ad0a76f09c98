/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_ADVICE_H
#define GF_CLI_REPORT_OUTPUT_ADVICE_H

#include "cli/report/output/answer.h"

/*
 * Adds what helps to answer->helps: first the remedies for the rank that is slower than the others,
 * then the largest gain first, and remedies whose gain is unknown last. Needs gf_rank_compare.
 */
void gf_advice_say(struct gf_answer *answer);

#endif
