/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory protection keys (pkeys(7)). A thread's PKRU register holds the thread's rights to pages
 * with such keys. A helper that reads memory for another thread adopts the rights of that thread.
 */
#ifndef GF_ENGINE_TRANSFER_POOL_PKRU_H
#define GF_ENGINE_TRANSFER_POOL_PKRU_H

#include "base/base.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Whether the kernel has turned protection keys on (CPUID leaf 7, ECX bit 4: OSPKE). */
static inline bool gf_pkru_is_on(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 4);
}

static inline uint32_t gf_pkru_get(void)
{
    uint32_t pkru, high;
    __asm__ volatile(".byte 0x0f, 0x01, 0xee" : "=a"(pkru), "=d"(high) : "c"(0)); /* rdpkru */
    return pkru;
}

static inline void gf_pkru_set(uint32_t pkru)
{
    __asm__ volatile(".byte 0x0f, 0x01, 0xef"
                     :
                     : "a"(pkru), "c"(0), "d"(0)
                     : "memory"); /* wrpkru */
}
#else
static inline bool gf_pkru_is_on(void)
{
    return false;
}

static inline uint32_t gf_pkru_get(void)
{
    return 0;
}

static inline void gf_pkru_set(uint32_t pkru)
{
    (void)pkru;
}
#endif

#endif
