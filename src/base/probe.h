/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Determines a property of the processor or the kernel at first use, and stores the result. Several
 * threads may determine the same property at the same time; all get the same result.
 */
#ifndef GF_BASE_PROBE_H
#define GF_BASE_PROBE_H

#include "base/atomic.h"
#include "base/base.h"

enum gf_probed { gf_probed_unknown, gf_probed_no, gf_probed_yes };

/*
 * Whether this machine has a property. `known` is a static variable that is initially 0, and holds
 * the result. If find_out returns gf_probed_unknown, the result is false, and the next call of
 * gf_probe calls find_out again.
 */
static inline bool gf_probe(_Atomic unsigned char *known, enum gf_probed (*find_out)(void))
{
    unsigned char answer = gf_load_relaxed(known);
    if (gf_unlikely(answer == gf_probed_unknown)) {
        answer = (unsigned char)find_out();
        gf_store_relaxed(known, answer);
    }
    return answer == gf_probed_yes;
}

static inline enum gf_probed gf_probed_as(bool answer)
{
    return answer ? gf_probed_yes : gf_probed_no;
}

#endif
