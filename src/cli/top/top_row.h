/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the line of a process in `gpufeed top`. */
#ifndef GF_CLI_TOP_TOP_ROW_H
#define GF_CLI_TOP_TOP_ROW_H

#include "cli/top/process_figures.h"

#include <stdio.h>

/*
 * Prints the line of a process, with rates between the two reports of the history. `snapshot`
 * contains the later report. width: see cli/top/columns.h.
 */
void gf_top_row_print(FILE *out, const struct gf_snapshot *snapshot,
                      const struct gf_top_history *history, unsigned width);

#endif
