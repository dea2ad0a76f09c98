/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/answer/answer.h"

#include <stdio.h>

/*
 * Prints an answer that fits on one screen: verdict, stalls, copies, ranks, what helps. Tables have
 * at most `top` rows. If `by` is not GF_BY_COUNT, prints only the table by this property.
 */
void gf_answer_print(FILE *out, const struct gf_answer *answer, unsigned top, enum gf_by by);
