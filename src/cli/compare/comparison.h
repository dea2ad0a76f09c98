/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the result of a comparison as text. */
#ifndef GF_CLI_COMPARE_COMPARISON_H
#define GF_CLI_COMPARE_COMPARISON_H

#include "cli/compare/arm.h"
#include "cli/compare/trial.h"

#include <stdio.h>

/* Prints the difference with its interval, and where the time went. */
void gf_comparison_print_trial(FILE *out, const struct gf_arms *arms, const struct gf_trial *trial);

/*
 * Prints the difference between two single reports, without an interval, and where the time went.
 */
void gf_comparison_print_reports(FILE *out, const char *const names[2],
                                 const struct gf_figures figures[2]);

#endif
