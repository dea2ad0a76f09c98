/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock for who only reports. That may be exit, called by a handler of the program's in the midst of a critical
 * section of this very thread, where waiting would never end: so it is given up after some milliseconds.
 */
#ifndef GF_TRANSFER_BRIEFLY_H
#define GF_TRANSFER_BRIEFLY_H

#include "base/base.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline bool gf_lock_briefly(pthread_mutex_t *lock)
{
    static const struct timespec pause = {.tv_nsec = 100000};
    for (unsigned i = 0; i < 100; i++) {
        if (pthread_mutex_trylock(lock) == 0)
            return true;
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL); /* no cancellation point */
    }
    return false;
}

#endif
