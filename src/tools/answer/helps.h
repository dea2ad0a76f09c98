/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/*
 * Functions that find a text of helps.def or abi/reasons.def by the name in a log or report. If the name is unknown,
 * the functions gf_*_words return the name itself (gf_cause_words: ""), and the functions gf_*_help
 * return "".
 */
/* The meaning of a stall's cause, such as "the call waited for ...", and the cause's remedy. */
const char *gf_cause_words(const char *cause);
const char *gf_cause_help(const char *cause);
/* Prints the causes of stalls with their meaning, a line each. */
void gf_helps_print_causes(FILE *out);

/* Why a copy was not staged, in words. */
const char *gf_reason_words(const char *reason);
/* The remedy for a reason why copies were not staged. */
const char *gf_reason_help(const char *reason);

/*
 * A state of a GPU in words. What the program did while a GPU had nothing to do (`cause`) in words,
 * and the remedy for this cause.
 */
const char *gf_state_words(const char *state);
const char *gf_host_words(const char *cause);
const char *gf_host_help(const char *cause);
