/* SPDX-License-Identifier: Apache-2.0 */
/* For the benches on retained memory: writes blocks, and repeats the same random numbers in each run. */
#ifndef GF_BENCH_BLOCKS_H
#define GF_BENCH_BLOCKS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline uint32_t chance(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static inline void *filled(size_t size)
{
    char *block = malloc(size);
    if (!block)
        exit(1);
    memset(block, 1, size);
    __asm__ volatile("" ::"r"(block) : "memory");
    return block;
}

#endif
