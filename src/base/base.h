/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes, small helpers, memory for one call. */
#pragma once

/*
 * Headers that most files need. Other files do not include these again. <stdio.h> and <stdlib.h> are
 * not among them, so that a file that prints or allocates says so.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/*
 * base: attributes and small helpers that every layer uses. No function in this folder allocates,
 * takes a lock or changes errno, unless its comment says otherwise. So these functions may be
 * called before main, inside malloc, in a signal handler, in a forked child and under the loader's
 * lock.
 */

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

static inline bool gf_begins(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Restores errno at the end of the block in which it stands: a function that keeps errno begins so. */
#define gf_keep_errno()                                                                            \
    const int gf_errno_kept __attribute__((unused, cleanup(gf_errno_restore))) = errno
static inline void gf_errno_restore(const int *kept)
{
    errno = *kept;
}

/* For comparison functions of qsort: -1, 0 or 1 if a is less than, equal to or greater than b. */
#define gf_order(a, b) (((a) > (b)) - ((a) < (b)))

/*
 * Defines a comparison function for qsort. `order` is an expression of the elements *one and *other:
 * below 0 if *one comes first.
 */
#define GF_COMPARATOR(name, type, order)                                                           \
    static inline int name(const void *a, const void *b)                                           \
    {                                                                                              \
        const type *const one = a, *const other = b;                                               \
        return order;                                                                              \
    }

/* Sorts doubles in ascending order. */
GF_COMPARATOR(gf_by_double, double, gf_order(*one, *other))

/*
 * Memory for one call that needs more than a small stack can hold. A thread's stack may have only
 * 16 KiB, including all thread-local variables. The memory is mapped by system calls, so it is not
 * from the heap, and no hook of this library is called. Taking and returning it costs about 2 us.
 * The functions may be called on any thread, inside malloc and in a forked child. They keep errno
 * unless the kernel refuses the mapping.
 */

/*
 * ThreadSanitizer observes calls of mmap and munmap, but no raw system calls. With raw system
 * calls, it would report a race if two threads map the same address one after the other.
 */
#ifdef __SANITIZE_THREAD__
#define gf_scratch_map(bytes, prot, flags) mmap(NULL, bytes, prot, flags, -1, 0)
#define gf_scratch_unmap(at, bytes) munmap(at, bytes)
#else
#define gf_scratch_map(bytes, prot, flags)                                                         \
    (void *)syscall(SYS_mmap, NULL, bytes, prot, flags, -1, 0L)
#define gf_scratch_unmap(at, bytes) syscall(SYS_munmap, at, bytes)
#endif

/* Returns zeroed memory; NULL if the kernel refuses the mapping. */
static inline void *gf_scratch_take(size_t bytes)
{
    void *at = gf_scratch_map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    return at == MAP_FAILED ? NULL : at;
}

/* The same, but children that are forked later share the memory. */
static inline void *gf_scratch_share(size_t bytes)
{
    void *at = gf_scratch_map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
    return at == MAP_FAILED ? NULL : at;
}

static inline void gf_scratch_give(void *at, size_t bytes)
{
    if (at)
        gf_scratch_unmap(at, bytes);
}

/*
 * A list of up to 11 parameters, each with its type in parentheses, such as (CUevent)hEvent,
 * (unsigned)flags: as the parameters of a function, and as the arguments of a call.
 */
#define GF_PARAMETERS(...) GF_EACH_11(GF_WITH_TYPE, __VA_ARGS__)
#define GF_ARGUMENTS(...) GF_EACH_11(GF_WITHOUT_TYPE, __VA_ARGS__)
#define GF_WITH_TYPE(type) type
#define GF_WITHOUT_TYPE(type)
#define GF_EACH_1(of, one) of one
#define GF_EACH_2(of, one, ...) of one __VA_OPT__(, GF_EACH_1(of, __VA_ARGS__))
#define GF_EACH_3(of, one, ...) of one __VA_OPT__(, GF_EACH_2(of, __VA_ARGS__))
#define GF_EACH_4(of, one, ...) of one __VA_OPT__(, GF_EACH_3(of, __VA_ARGS__))
#define GF_EACH_5(of, one, ...) of one __VA_OPT__(, GF_EACH_4(of, __VA_ARGS__))
#define GF_EACH_6(of, one, ...) of one __VA_OPT__(, GF_EACH_5(of, __VA_ARGS__))
#define GF_EACH_7(of, one, ...) of one __VA_OPT__(, GF_EACH_6(of, __VA_ARGS__))
#define GF_EACH_8(of, one, ...) of one __VA_OPT__(, GF_EACH_7(of, __VA_ARGS__))
#define GF_EACH_9(of, one, ...) of one __VA_OPT__(, GF_EACH_8(of, __VA_ARGS__))
#define GF_EACH_10(of, one, ...) of one __VA_OPT__(, GF_EACH_9(of, __VA_ARGS__))
#define GF_EACH_11(of, one, ...) of one __VA_OPT__(, GF_EACH_10(of, __VA_ARGS__))
