/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/report_lock.h"

#include "base/atomic.h"

#include <time.h>

static _Atomic bool held;

bool gf_report_lock(unsigned wait_ms)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    while (gf_exchange_acquire(&held, true)) {
        if (wait_ms-- == 0)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

void gf_report_unlock(void)
{
    gf_store_release(&held, false);
}
