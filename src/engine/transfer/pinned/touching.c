/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/touching.h"

#include "base/atomic.h"
#include "host/mempolicy.h"
#include "engine/transfer/pages.h"
#include "engine/transfer/range_policy.h"
#include "engine/transfer/pool.h"
#include "engine/transfer/mutation.h"
#include "engine/transfer/tuning.h"
#include "os/headroom.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

bool gf_touching_fits(size_t bytes, const struct gf_range_policy *policy)
{
    static const struct gf_range_policy none;
    struct gf_headroom headroom;
    if (GF_MUTATED(ignores_limits))
        return true;
    gf_range_policy_headroom(policy ? policy : &none, &headroom);
    if (headroom.bytes == GF_HEADROOM_UNKNOWN)
        return true;
    const uint64_t reserve = GF_TUNE_PIN_RESERVE + headroom.bytes / 8;
    return headroom.bytes > reserve && bytes <= headroom.bytes - reserve;
}

static int touch_pages(char *at, size_t bytes, bool own)
{
    while (madvise(at, bytes, MADV_POPULATE_WRITE) != 0) {
        if (errno == EAGAIN || errno == EINTR)
            continue;
        if (errno != EINVAL || !own)
            return -errno;
        for (size_t i = 0; i < bytes; i += gf_page_size()) /* kernels before 5.14 */
            *(volatile char *)(at + i) = 0;
        break;
    }
    return 0;
}

/*
 * If the policy only prefers a node, pages go elsewhere once the node is full, so the limit of all
 * nodes counts.
 */
static const struct gf_range_policy *binding_policy(const struct gf_touching *t)
{
    return t->policy && gf_mempolicy_binds(t->policy->mode) ? t->policy : NULL;
}

/*
 * Other processes may take memory while pages are touched, so the headroom is read again after each
 * step.
 */
static bool may_touch(struct gf_touching *t, size_t bytes)
{
    const uint64_t before = gf_add_relaxed(&t->touched, bytes);
    return t->reserved || before / GF_TUNE_TOUCH_STEP == (before + bytes) / GF_TUNE_TOUCH_STEP ||
           gf_touching_fits(GF_TUNE_TOUCH_STEP, binding_policy(t));
}

static bool touch_unit(struct gf_job *job, uint64_t i)
{
    struct gf_touching *t = (struct gf_touching *)job;
    size_t start, bytes = gf_units_get(&t->units, i, &start);

    for (size_t step; bytes; start += step, bytes -= step) {
        step = gf_min(GF_TUNE_TOUCH_STEP, bytes);
        int error = gf_load_relaxed(&t->error);
        if (!error && !may_touch(t, step))
            error = -ENOMEM;
        if (!error)
            error = touch_pages(t->at + start, step, t->policy != NULL);
        if (error) {
            gf_store_relaxed(&t->error, error);
            return false;
        }
    }
    return true;
}

int gf_touching_run(struct gf_touching *t)
{
    const uint64_t units = gf_units_count(&t->units);

    t->job.work = touch_unit;
    if (t->pool) {
        /* in a child that a handler forked within this call, no unit has an error */
        if (gf_pool_run(t->pool, &t->job, units) != GF_PIECE_NONE && !gf_load_relaxed(&t->error))
            return -ECHILD;
    } else {
        for (uint64_t i = 0; i < units && touch_unit(&t->job, i); i++)
            ;
    }
    return gf_load_relaxed(&t->error);
}
