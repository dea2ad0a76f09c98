/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place/min_cpus.h"

#define NEED_LEAST 4
#define NEED_MOST 16
#define NEED_SHARE 4 /* divisor: a quarter of the CPUs */

unsigned gf_min_cpus(unsigned allowed, double quota)
{
    const unsigned share = (allowed + NEED_SHARE - 1) / NEED_SHARE;
    unsigned need = gf_min(gf_max(share, NEED_LEAST), NEED_MOST);

    if (quota > 0 && quota < need)
        need = (unsigned)quota + (quota > (unsigned)quota);
    return gf_min(need, allowed);
}
