/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded lock acquisition for the reporting path. A signal handler may interrupt a thread that
 * holds the lock, and call exit(). A report written by exit() would then wait for the lock forever.
 */
#ifndef GF_ENGINE_TRANSFER_SETUP_TIMED_LOCK_H
#define GF_ENGINE_TRANSFER_SETUP_TIMED_LOCK_H

#include "base/base.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* False: the lock was not free for about 10 ms. The function is no cancellation point. */
static inline bool gf_timed_lock(pthread_mutex_t *lock)
{
    static const struct timespec pause = {.tv_nsec = 100000};
    for (unsigned i = 0; i < 100; i++) {
        if (pthread_mutex_trylock(lock) == 0)
            return true;
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    return false;
}

#endif
