/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's calls of these functions reach libc's own, because a preload such as libfaketime may
 * replace them: with a clock that stands still, waits with a time limit would not end, and durations
 * would be wrong. The linker redirects the engine's calls to the functions below (--wrap in
 * src/engine/meson.build). The preload library's calls are bound to libc in any case
 * (base/loader.h).
 */
#include "base/atomic.h"
#include "base/loader.h"

#include <semaphore.h>
#include <time.h>

/* Every thread stores the same address. */
static void *libc_function(void *_Atomic *known, const char *name, void *otherwise)
{
    void *found = gf_load_relaxed(known);

    if (gf_unlikely(!found)) {
        found = gf_libc_function(name);
        if (!found)
            found = otherwise;
        gf_store_relaxed(known, found);
    }
    return found;
}

#define REAL(name, parameters, arguments)                                                          \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters                                                                   \
    {                                                                                              \
        static void *_Atomic known;                                                                \
        void *function = libc_function(&known, #name, (void *)(uintptr_t)&__real_##name);          \
        return ((int(*) parameters)function)arguments;                                             \
    }

REAL(clock_gettime, (clockid_t clock, struct timespec *ret), (clock, ret))
REAL(nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
REAL(clock_nanosleep,
     (clockid_t clock, int flags, const struct timespec *time, struct timespec *left),
     (clock, flags, time, left))
REAL(sem_clockwait, (sem_t * semaphore, clockid_t clock, const struct timespec *until),
     (semaphore, clock, until))
