/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pool/pool_run.h"

#include "base/clock.h"
#include "engine/transfer/pool/pool.h"
#include "engine/transfer/pool/running.h"
#include "engine/transfer/setup/tuning.h"

#include <time.h>

/* Waits until a helper has claimed a piece, or a piece counts as failed in a forked child. */
static bool await_claim(const struct gf_job *job, uint64_t patience_ns)
{
    static const struct timespec moment = {.tv_nsec = 20000};
    const uint64_t begun = gf_now_ns();

    for (uint64_t waited = 0; gf_load_relaxed(&job->next) == 0; waited = gf_now_ns() - begun) {
        if (gf_job_failed(job) != GF_PIECE_NONE)
            return true;
        if (waited >= patience_ns)
            return false;
        if (waited < GF_TUNE_CALLER_SPIN_NS)
            gf_relax();
        else
            syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &moment, NULL);
    }
    return true;
}

/* The first piece that was not done. */
static uint64_t first_undone(const struct gf_job *job, uint64_t pieces)
{
    const uint64_t claimed = gf_load_relaxed(&job->next);

    if (gf_job_failed(job) != GF_PIECE_NONE || claimed >= pieces)
        return gf_job_failed(job);
    return claimed;
}

uint64_t gf_pool_run_by_helpers(struct gf_pool *pool, struct gf_job *job, uint64_t pieces,
                                uint64_t patience_ns)
{
    struct gf_running run = {.job = job, .lock = gf_pool_lock(pool)};

    gf_running_begin(&run);
    gf_pool_open(pool, job, pieces);
    if (await_claim(job, patience_ns))
        for (uint32_t seen; seen = gf_job_events(job), gf_job_unclaimed(job);)
            gf_job_wait(job, seen);
    gf_pool_close(pool, job);
    const uint64_t undone = first_undone(job, pieces);
    gf_running_end(&run);
    return undone;
}
