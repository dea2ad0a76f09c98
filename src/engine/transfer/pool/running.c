/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pool/running.h"

#include "base/atomic.h"
#include "engine/transfer/pool/job.h"

static __thread struct gf_running *running; /* the innermost call on this thread */

void gf_running_begin(struct gf_running *run)
{
    run->outer = running;
    running = run;
    atomic_signal_fence(memory_order_seq_cst);
}

void gf_running_end(const struct gf_running *run)
{
    atomic_signal_fence(memory_order_seq_cst);
    running = run->outer;
}

void gf_running_in_child(void)
{
    for (const struct gf_running *run = running; run; run = run->outer) {
        *run->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
        gf_store_relaxed(&run->job->failed, 0);
        gf_store_relaxed(&run->job->helpers, 0);
    }
}
