/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/big_table.h"

#include "base/atomic.h"

#define TOP_BITS 12 /* 48 bits of address space */

static gf_big_word *_Atomic top[1 << TOP_BITS];

gf_big_word *gf_big_find_word(uintptr_t start)
{
    const uintptr_t index = start / GF_BIG_ALIGN;

    if (index >> (TOP_BITS + GF_BIG_PART_BITS))
        return NULL;
    gf_big_word *const part = gf_load_acquire(&top[index >> GF_BIG_PART_BITS]);
    return part ? &part[index & ((1 << GF_BIG_PART_BITS) - 1)] : NULL;
}

bool gf_big_add_part(uintptr_t start, gf_big_word *part)
{
    const uintptr_t index = start / GF_BIG_ALIGN;
    gf_big_word *expected = NULL;

    return !(index >> (TOP_BITS + GF_BIG_PART_BITS)) &&
           gf_cas_acq_rel(&top[index >> GF_BIG_PART_BITS], &expected, part);
}

void gf_big_forget(uintptr_t start, size_t size)
{
    const uintptr_t first = (start + GF_BIG_ALIGN - 1) & ~(GF_BIG_ALIGN - 1);

    for (uintptr_t at = first; at < start + size; at += GF_BIG_ALIGN) {
        gf_big_word *const word = gf_big_find_word(at);
        if (gf_unlikely(word && gf_load_relaxed(word)))
            gf_store_relaxed(word, 0);
    }
}
