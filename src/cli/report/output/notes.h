/* SPDX-License-Identifier: Apache-2.0 */
/* The notes of the answer: what its figures lack, and which input was skipped. */
#ifndef GF_CLI_REPORT_OUTPUT_NOTES_H
#define GF_CLI_REPORT_OUTPUT_NOTES_H

#include "cli/report/output/answer.h"

/* Adds the notes to the answer. */
void gf_notes_say(struct gf_answer *answer);

#endif
