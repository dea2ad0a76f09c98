/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence about processes that stand still (docs/log.md#standstill). */
#pragma once

#include "tools/answer/answer.h"

/*
 * Adds a sentence if a process stood still when its report was written: in which step, for how
 * long, and where, grouped by ranks. Returns false if none did.
 */
bool gf_standing_say(struct gf_answer *answer);
