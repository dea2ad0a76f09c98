/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/copy/under_way.h"

#include "base/atomic.h"

static _Atomic uint64_t under_way[gf_direction_count][gf_maker_count];

/* Of the calling thread. */
static __thread uint64_t own[gf_direction_count][gf_maker_count];

uint64_t gf_under_way_enter(enum gf_direction direction, enum gf_maker maker, uint64_t bytes)
{
    const uint64_t more = bytes - own[direction][maker]; /* modulo 2^64, as the sum is */

    own[direction][maker] = bytes;
    return gf_add_relaxed(&under_way[direction][maker], more) + more;
}

uint64_t gf_under_way_leave(enum gf_direction direction, enum gf_maker maker)
{
    const uint64_t bytes = own[direction][maker];

    own[direction][maker] = 0;
    return bytes ? gf_sub_relaxed(&under_way[direction][maker], bytes)
                 : gf_load_relaxed(&under_way[direction][maker]);
}

bool gf_under_way_by_driver(void)
{
    return gf_load_relaxed(&under_way[gf_direction_h2d][gf_maker_driver]) ||
           gf_load_relaxed(&under_way[gf_direction_d2h][gf_maker_driver]);
}
