/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_STALL_TEXT_H
#define GF_CLI_REPORT_OUTPUT_STALL_TEXT_H

#include "cli/report/input/event.h"

/* Prints a stall's call, cause, node and GPU, Python lines and native frames. */
void gf_stall_text_print(const struct gf_event *event);

/* Frees the cache of stack texts. */
void gf_stall_text_end(void);

#endif
