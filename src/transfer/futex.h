/* SPDX-License-Identifier: Apache-2.0 */
/* Futexes private to the process, and a polite spin. No cancellation point; errno is not kept. */
#ifndef GF_TRANSFER_FUTEX_H
#define GF_TRANSFER_FUTEX_H

#include "base/base.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void gf_futex_wait(const uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

/* The word may be gone by then: a stray wake-up hurts nobody. */
static inline void gf_futex_wake(const uint32_t *word, unsigned threads)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
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
