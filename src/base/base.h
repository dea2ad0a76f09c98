/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base: attributes and small helpers that every layer uses. No function in this folder allocates,
 * takes a lock or changes errno, unless its comment says otherwise. So these functions may be
 * called before main, inside malloc, in a signal handler, in a forked child and under the loader's
 * lock.
 */
#ifndef GF_BASE_BASE_H
#define GF_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GF_EXPORT __attribute__((visibility("default")))
#define GF_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define GF_COLD __attribute__((cold, noinline))

#define gf_likely(x) __builtin_expect(!!(x), 1)
#define gf_unlikely(x) __builtin_expect(!!(x), 0)

#define GF_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define GF_STRINGIFY_(x) #x
#define GF_STRINGIFY(x) GF_STRINGIFY_(x)

#define gf_min(a, b) ((a) < (b) ? (a) : (b))
#define gf_max(a, b) ((a) > (b) ? (a) : (b))

/*
 * Returns the number that a call for this many bytes adds to a counter. Returns 0 from 2^48 bytes
 * on, because such a call fails.
 */
static inline uint64_t gf_bytes_counted(uint64_t bytes)
{
    return bytes >> 48 ? 0 : bytes;
}

/* A comparison function for qsort: sorts doubles in ascending order. */
static inline int gf_by_double(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

#endif
