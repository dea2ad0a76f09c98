/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_STALL_TEXT_H
#define GF_CLI_REPORT_OUTPUT_STALL_TEXT_H

#include "cli/report/input/event.h"

/* Prints what a stall's line says after its head: call, cause, place, Python lines and native frames. */
void gf_stall_text_print(const struct gf_event *event);

/* Frees the stacks that were printed. */
void gf_stall_text_end(void);

#endif
