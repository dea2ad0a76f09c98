/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that the program marks by gpufeed_step. */
#ifndef GF_ABI_STEP_API_H
#define GF_ABI_STEP_API_H

#include "base/base.h"

struct gf_step_count {
    uint64_t ended; /* steps that a later mark ended */
    /* Microseconds from the program's first mark to its latest one; 0 before the second mark. */
    uint64_t us;
    uint64_t current; /* number of the current step; 0 if there is none */
};

#endif
