/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_BASE_CLOCK_H
#define GF_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t gf_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Of the calling thread, so that waiting for a CPU is not taken for work. */
static inline uint64_t gf_thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif
