/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the CPU and the kernel support wide vector registers (x86-64). May be called on any
 * thread.
 */
#ifndef GF_ENGINE_TRANSFER_MEMORY_SIMD_H
#define GF_ENGINE_TRANSFER_MEMORY_SIMD_H

#include <stdbool.h>

#if defined(__x86_64__)
static inline bool gf_simd_has_avx512(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f");
}

static inline bool gf_simd_has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2");
}
#endif

#endif
