/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_RUN_OUTPUT_PATHS_H
#define GF_CLI_RUN_OUTPUT_PATHS_H

#include "cli/run/environ.h"

/*
 * Prints a line for each of the library's output files that cannot be written now. The library
 * itself would notice this later or not at all: it opens a log only for an event, and prints
 * nothing without CUDA. The variables stay set, because the program may create the missing folder.
 */
void gf_output_paths_check(const struct gf_env *env);

#endif
