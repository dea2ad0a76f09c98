/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t gf_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline uint64_t gf_now_ns(void)
{
    return gf_clock_ns(CLOCK_MONOTONIC);
}

static inline struct timespec gf_timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}

/* Returns earlier if a signal handler runs. A cancellation point. */
static inline void gf_sleep_ns(uint64_t ns)
{
    const struct timespec time = gf_timespec(ns);
    nanosleep(&time, NULL);
}

/*
 * Returns the time of the kernel's last tick, at most 10 ms ago. Reads no counter of the CPU. A
 * program may forbid itself to read these counters (PR_SET_TSC).
 */
static inline uint64_t gf_coarse_ns(void)
{
    return gf_clock_ns(CLOCK_MONOTONIC_COARSE);
}

/*
 * Reads a clock with a resolution of about 1 ns, for cheap checks of elapsed time. A read takes a
 * third of the time of gf_now_ns. Instructions before the read may complete after it, and the
 * clocks of two CPUs may differ.
 */
static inline uint64_t gf_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t now, per_second;
    __asm__ volatile("mrs %0, cntvct_el0\n\tmrs %1, cntfrq_el0" : "=r"(now), "=r"(per_second));
    return now * (UINT64_C(1000000000) / per_second);
#else
    return gf_now_ns();
#endif
}

/*
 * Returns the CPU time of the calling thread. The time in which the thread waited for a CPU is not
 * included.
 */
static inline uint64_t gf_thread_cpu_ns(void)
{
    return gf_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/*
 * Returns the next number of a xorshift generator, which is never 0. A state of 0 becomes one that
 * depends on the time.
 */
static inline uint64_t gf_random(uint64_t *state)
{
    if (!*state)
        *state = gf_now_ns() | 1;
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}
