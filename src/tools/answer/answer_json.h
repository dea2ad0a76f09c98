/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tools/answer/answer.h"

/*
 * Returns an answer as JSON (docs/schema/answer.def), with at most `top` rows in a table. `by` is as in
 * gf_answer_print. The caller drops the reference.
 */
json_t *gf_answer_json(const struct gf_answer *answer, unsigned top, enum gf_by by);
