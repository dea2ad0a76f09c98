/* SPDX-License-Identifier: Apache-2.0 */
/* Page sizes, and rounding to them. */
#ifndef GF_ENGINE_TRANSFER_MEMORY_PAGE_H
#define GF_ENGINE_TRANSFER_MEMORY_PAGE_H

#include "base/atomic.h"
#include "base/base.h"

#include <unistd.h>

#define GF_HUGE_PAGE ((size_t)2 << 20)

/* Returns the page size. Calls sysconf only once. May be called on any thread. */
static inline size_t gf_page_size(void)
{
    static _Atomic size_t size;
    size_t known = gf_load_relaxed(&size);
    if (gf_unlikely(!known)) {
        known = (size_t)sysconf(_SC_PAGESIZE);
        gf_store_relaxed(&size, known);
    }
    return known;
}

static inline size_t gf_round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

#endif
