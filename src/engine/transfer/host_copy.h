/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/*
 * Copies on helper threads in a program that handles page faults itself. For example, a garbage
 * collector protects pages, and its SIGSEGV handler unprotects the page that a thread of the
 * program touches. A helper blocks all signals, so a fault on a helper would kill the process. With
 * these functions the kernel accesses the program's memory, and returns an error where an access by
 * the helper would raise a signal. The thread that called the copy then accesses that memory
 * itself, as it would without the library.
 */

/*
 * Whether the program has a handler for SIGSEGV or SIGBUS now. Makes two system calls. May be
 * called on any thread.
 */
bool gf_faults_are_handled(void);

/*
 * Whether the kernel, and any seccomp filter, allow the functions below. May be called on any
 * thread.
 */
bool gf_program_copy_is_possible(void);

/*
 * Copy between memory at `program` and other memory. The function `copy` writes that other memory,
 * which gf_program_copy writes by its pages. False: some bytes cannot be accessed; bytes before them may
 * have been copied. Once the program has protected a page, its bytes at `program` are not accessed any
 * more. May be called on any thread.
 */
bool gf_program_copy(char *to, const char *program, size_t bytes);
bool gf_program_read(char *to, const char *program, size_t bytes,
                     void (*copy)(char *to, const char *from, size_t bytes));
bool gf_program_write(char *program, const char *from, size_t bytes);

/*
 * Whether the CPU and the kernel support wide vector registers (x86-64). May be called on any
 * thread.
 */

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

/*
 * Copies into the staging ring. The device reads the bytes next; no processor reads them again. The
 * ring's cache lines are still modified in the cache of the CPU that wrote them last. An ordinary
 * store would first fetch such a line; a non-temporal store overwrites it in memory. Copies out of
 * the ring use memcpy, because the program reads the result next.
 *
 * Non-temporal stores write every line to memory, and the device reads the line from memory at
 * once. So with many threads, memory bandwidth limits large copies. The variant with CLDEMOTE moves
 * lines to the cache that all cores share, and the device reads them from that cache. With this
 * variant each thread is slower, but all threads together are faster. Ordinary stores without
 * CLDEMOTE would leave the lines in the writing core's own cache, from which the device reads at a
 * third of its speed. Measurements: bench/NOTES.md.
 */

/*
 * Copies to an address `to` that is aligned to 64 bytes. A DMA that is issued after the call reads
 * the new bytes. May be called on any thread.
 */
void gf_nt_copy(char *to, const char *from, size_t bytes);

/* The same as gf_nt_copy, but with CLDEMOTE if the processor has this instruction. */
void gf_cldemote_copy(char *to, const char *from, size_t bytes);
bool gf_cldemote_is_possible(void);

/* The implementations, for tests. Each copies whole lines of 64 bytes. */
struct gf_nt_copy_way {
    /* the processor has the vector registers that copy_lines uses, and the kernel saves them */
    bool (*can_run)(void);
    void (*copy_lines)(char *to, const char *from, size_t bytes);
    bool demotes;
};
/*
 * Returns the implementations; those with the widest registers come first. *ret_count is 0 on
 * processors for which gf_nt_copy calls memcpy.
 */
const struct gf_nt_copy_way *gf_nt_copy_ways(size_t *ret_count);
