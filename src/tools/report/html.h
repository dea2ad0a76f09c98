/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/answer/answer.h"

#include <stdio.h>

/*
 * Writes a self-contained page: the answer, a timeline, stalled time by line, durations of stalls,
 * copies, ranks, locality and settings. The timeline draws the longest stalls one by one, and the
 * sum of all stalls per interval.
 */
void gf_html_write(FILE *out, const struct gf_answer *answer);
