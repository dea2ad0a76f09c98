/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_CLI_REPORT_OUTPUT_HELPS_H
#define GF_CLI_REPORT_OUTPUT_HELPS_H

#include <stdio.h>

/*
 * Finds texts of helps.def by the name in a log or report. If the name is unknown, the functions
 * for words return the name itself, and those for remedies return "".
 */
/* What a stall's cause means: "the call waited for ..."; "" if unknown. Its remedy. */
const char *gf_cause_words(const char *cause);
const char *gf_cause_help(const char *cause);
/* Prints the causes of stalls with their meaning, a line each. */
void gf_helps_print_causes(FILE *out);

/* Why a copy was not staged, in words. */
const char *gf_reason_words(const char *reason);
/* The remedy for that reason. */
const char *gf_reason_help(const char *reason);

/* A state of a GPU, in words; what the program did while the GPU had nothing to do; its remedy. */
const char *gf_state_words(const char *state);
const char *gf_host_words(const char *cause);
const char *gf_host_help(const char *cause);

#endif
