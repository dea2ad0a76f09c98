/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/pages/unused.h"

struct gf_unused gf_unused[GF_UNUSED_ARENAS];
_Atomic unsigned gf_unused_arenas;

static uint64_t positive(int64_t bytes)
{
    return bytes > 0 ? (uint64_t)bytes : 0;
}

void gf_unused_purged(unsigned arena, size_t size)
{
    struct gf_unused *const unused = &gf_unused[arena];

    gf_sub_relaxed(&unused->kept, (int64_t)size);
    gf_sub_relaxed(&unused->least, (int64_t)size);
    gf_sub_relaxed(&unused->before, (int64_t)size);
}

void gf_unused_rotate(void)
{
    for (unsigned i = gf_load_relaxed(&gf_unused_arenas); i-- > 0;) {
        struct gf_unused *const unused = &gf_unused[i];
        gf_store_relaxed(&unused->before, gf_load_relaxed(&unused->least));
        gf_store_relaxed(&unused->least, gf_load_relaxed(&unused->kept));
    }
}

uint64_t gf_unused_bytes(unsigned arena)
{
    struct gf_unused *const unused = &gf_unused[arena];
    const int64_t windows =
        gf_min(gf_load_relaxed(&unused->least), gf_load_relaxed(&unused->before));
    return positive(gf_min(windows, gf_load_relaxed(&unused->kept)));
}

uint64_t gf_unused_total(void)
{
    uint64_t ret = 0;

    for (unsigned i = gf_load_relaxed(&gf_unused_arenas); i-- > 0;)
        ret += gf_unused_bytes(i);
    return ret;
}

uint64_t gf_unused_kept(void)
{
    uint64_t ret = 0;

    for (unsigned i = gf_load_relaxed(&gf_unused_arenas); i-- > 0;)
        ret += positive(gf_load_relaxed(&gf_unused[i].kept));
    return ret;
}
