/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Futexes private to the process, and a pause for spinning. The functions are no cancellation
 * points. They may change errno.
 */
#ifndef GF_ENGINE_TRANSFER_POOL_FUTEX_H
#define GF_ENGINE_TRANSFER_POOL_FUTEX_H

#include "base/base.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * Sleeps while *word is `seen`. True: another thread woke this one. False: *word was no longer
 * `seen`, or a signal arrived.
 */
static inline bool gf_futex_wait(const _Atomic uint32_t *word, uint32_t seen)
{
    return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0) == 0;
}

/*
 * Wakes up to `threads` waiters, and returns how many it woke. The word may already be freed; a
 * stray wake-up is harmless, because every waiter checks its condition again.
 */
static inline unsigned gf_futex_wake(const _Atomic uint32_t *word, unsigned threads)
{
    const long woken = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
    return woken > 0 ? (unsigned)woken : 0;
}

static inline void gf_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
