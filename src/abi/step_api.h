/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that the program marks by gpufeed_step. */
#ifndef GF_ABI_STEP_API_H
#define GF_ABI_STEP_API_H

#include "base/base.h"

struct gf_step_count {
    uint64_t ended; /* steps that a later mark ended */
    /* Time from the first mark of a step to the last mark; 0 before the second mark. */
    uint64_t us;
    uint64_t current; /* the number of the step now; 0 before the first step */
};

#endif
