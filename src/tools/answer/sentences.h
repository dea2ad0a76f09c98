/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/answer/answer.h"

/*
 * Adds the sentences of an answer: the verdict, ranks that differ, what helps, and notes on the
 * data. A user may read only the verdict's first sentence, so this sentence alone must answer the
 * question.
 */
void gf_verdict_say(struct gf_answer *answer);

/*
 * Writes a text such as "4 ranks on 2 hosts, 12 processes, 300 s from 2026-11-23 08:51:09 to
 * 08:56:09".
 */
const char *gf_verdict_scope(const struct gf_answer *answer, char *buf, size_t size);
