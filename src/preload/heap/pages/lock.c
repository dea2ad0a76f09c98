/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/pages/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { lock_free, lock_held, lock_wanted };

static GF_COLD void wait_for_lock(struct gf_lock *lock)
{
    const int error = errno;

    while (gf_exchange_acquire(&lock->state, lock_wanted) != lock_free)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, lock_wanted, NULL);
    errno = error;
}

void gf_lock_take(struct gf_lock *lock)
{
    unsigned expected = lock_free;

    if (gf_unlikely(!gf_cas_acquire(&lock->state, &expected, lock_held)))
        wait_for_lock(lock);
}

void gf_lock_give(struct gf_lock *lock)
{
    if (gf_unlikely(atomic_exchange_explicit(&lock->state, lock_free, memory_order_release) ==
                    lock_wanted)) {
        const int error = errno;
        syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1);
        errno = error;
    }
}
