/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/* The tables of helps.def and abi/reasons.def, whose names are in logs and reports. */
enum gf_help {
    gf_help_stall,  /* causes of stalls */
    gf_help_reason, /* why copies were not staged */
    gf_help_state,  /* states of a GPU */
    gf_help_host,   /* what the program did while a GPU had nothing to do */
};

/* Returns the meaning of a name in words. An unknown name is returned itself; of a stall, "". */
const char *gf_help_words(enum gf_help of, const char *name);

/* Returns the remedy; "" if none is known. */
const char *gf_help_remedy(enum gf_help of, const char *name);

/* Prints the causes of stalls with their meaning, a line each. */
void gf_helps_print_causes(FILE *out);
