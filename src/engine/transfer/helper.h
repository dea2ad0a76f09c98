/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "config/options.h"

/* Starts the helper threads of a pool. Called on the library's own thread (pool.h explains why). */

/*
 * Starts up to `count` detached threads that run run(arg) with every signal blocked, and does not
 * wait for them. Returns 0, or an errno if the first thread could not be started. If only later
 * threads could not be started, that is not an error. The threads never end, so their stacks are
 * never unmapped.
 */
int gf_helpers_start(unsigned count, void *(*run)(void *), void *arg);

/*
 * The same, but lets gf_server_reads (os/own_table.h) create the threads, so that they share its
 * descriptor table. Before the threads run, sets *ret_apart to true. If this thread does not serve,
 * the calling thread creates them, and *ret_apart stays as it is.
 */
int gf_helpers_start_apart(unsigned count, void *(*run)(void *), void *arg, bool *ret_apart);

/* The scheduling priority of helper threads (GPUFEED_HELPER_PRIORITY). */

/*
 * Gives the calling helper the requested priority. Returns 0, or an errno if the kernel refuses. Then
 * the helper keeps its priority. Prints nothing, because helpers have no standard error.
 */
int gf_priority_apply(enum gf_helper_priority priority);
/* Prints one line about the first refusal in the process. Not called on helpers. */
void gf_priority_warn(enum gf_helper_priority priority, int error);

/*
 * Memory protection keys (pkeys(7)). A thread's PKRU register holds the thread's rights to pages
 * with such keys. A helper that reads memory for another thread adopts the rights of that thread.
 */

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

/*
 * Whether the calling thread has a real-time policy. Helpers are ordinary threads. While real-time
 * threads keep all CPUs busy, a helper cannot finish a piece that it has begun. A real-time caller
 * could then wait for that helper forever. So the copies of such a caller are left to the driver,
 * and the caller does the pieces of its other jobs alone. While the library may not ask the kernel
 * (os/permit.h), the last answer for the thread holds.
 */
bool gf_is_realtime(void);
