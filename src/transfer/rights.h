/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread's rights to pages with protection keys. They are the thread's own: a helper that reads
 * for another thread takes on that thread's, or it would read what that one must not.
 */
#ifndef GF_TRANSFER_RIGHTS_H
#define GF_TRANSFER_RIGHTS_H

#include "base/base.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* Whether the kernel has turned protection keys on. */
static inline bool gf_rights_known(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 4);
}

static inline uint32_t gf_rights_get(void)
{
    uint32_t rights, high;
    __asm__ volatile(".byte 0x0f, 0x01, 0xee" : "=a"(rights), "=d"(high) : "c"(0)); /* rdpkru */
    return rights;
}

static inline void gf_rights_set(uint32_t rights)
{
    __asm__ volatile(".byte 0x0f, 0x01, 0xef" : : "a"(rights), "c"(0), "d"(0) : "memory"); /* wrpkru */
}
#else
static inline bool gf_rights_known(void)
{
    return false;
}

static inline uint32_t gf_rights_get(void)
{
    return 0;
}

static inline void gf_rights_set(uint32_t rights)
{
    (void)rights;
}
#endif

#endif
