/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties of the processor or the kernel, determined at first use. Several threads may determine
 * the same property at the same time; they get the same result.
 */
#ifndef GF_BASE_PROBE_H
#define GF_BASE_PROBE_H

#include "base/atomic.h"
#include "base/base.h"

enum gf_probed { gf_probed_unknown, gf_probed_no, gf_probed_yes };

/*
 * `known` is a static variable that starts at 0. If find_out returns unknown, the result is false,
 * and the next call asks again.
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
