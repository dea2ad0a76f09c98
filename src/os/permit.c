/* SPDX-License-Identifier: Apache-2.0 */
#include "os/permit.h"

#include "base/atomic.h"

#define SEALED (1U << 31)

static _Atomic unsigned own = GF_PERMIT_ALL & ~(1U << gf_permit_close_range);
/* In the engine: a pointer to the preload library's word. NULL: `own` is used. */
static _Atomic unsigned *_Atomic shared;

_Atomic unsigned *gf_permit_word(void)
{
    _Atomic unsigned *const word = gf_load_acquire(&shared);
    return word ? word : &own;
}

void gf_permit_share(_Atomic unsigned *word)
{
    gf_store_release(&shared, word);
}

bool gf_permit(enum gf_permit call)
{
    return gf_load_relaxed(gf_permit_word()) >> call & 1;
}

void gf_permit_only(unsigned calls)
{
    unsigned before = gf_load_relaxed(gf_permit_word());

    while (!(before & SEALED) && !gf_cas_weak_relaxed(gf_permit_word(), &before, calls))
        ;
}

void gf_permit_seal(void)
{
    gf_store_relaxed(gf_permit_word(), SEALED);
}

bool gf_permit_sealed(void)
{
    return gf_load_relaxed(gf_permit_word()) & SEALED;
}
