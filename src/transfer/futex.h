/* SPDX-License-Identifier: Apache-2.0 */
/* Futexes private to the process, and a polite spin. No cancellation point; errno is not kept. */
#ifndef GF_TRANSFER_FUTEX_H
#define GF_TRANSFER_FUTEX_H

#include "base/base.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whether it was woken; false: the word had changed, or the like. */
static inline bool gf_futex_wait(const uint32_t *word, uint32_t seen)
{
    return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0) == 0;
}

/* How many there were. The word may be gone by then: a stray wake-up hurts nobody. */
static inline unsigned gf_futex_wake(const uint32_t *word, unsigned threads)
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
