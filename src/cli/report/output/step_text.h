/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_STEP_TEXT_H
#define GF_CLI_REPORT_OUTPUT_STEP_TEXT_H

#include "cli/report/output/answer.h"

/*
 * Adds to the verdict the durations of steps that the reports have, those of the slowest process.
 * Called if no log has marks.
 */
void gf_step_text_say(struct gf_answer *answer);

#endif
