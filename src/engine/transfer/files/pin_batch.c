/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/files/pin_batch.h"

#include "base/atomic.h"
#include "base/pystack.h"
#include "engine/transfer/files/shared_read.h"
#include "engine/transfer/helper.h"
#include "engine/transfer/host_copy.h"
#include "engine/transfer/prepare.h"
#include "engine/transfer/setup.h"
#include "engine/transfer/stats.h"
#include "engine/transfer/tuning.h"
#include "os/permit.h"

#include <pthread.h>

/*
 * The function calls Tensor.pin_memory in the second line after its `def`, in all versions of PyTorch.
 * Elsewhere it calls methods of the program's objects. They may compute, and if they are TorchScript
 * or C++, they have no Python frame.
 */
#define PIN_MEMORY "torch/utils/data/_utils/pin_memory.py"
#define PIN_LINE 2

struct gf_openmp gf_openmp;

static _Atomic bool started;

static __thread struct {
    unsigned regions; /* so many more regions of this thread may be shared */
    bool inside;      /* the thread does a piece */
    bool allocates;   /* a helper has been prepared for allocations */
    int piece;
} own;

struct region {
    struct gf_pieces job;
    void (*work)(void *);
    void *data;
    const void *caller;
};

/* The pointer may have been replaced before this thread sees the stored function. */
#define ORIGINAL(member)                                                                           \
    ({                                                                                             \
        __typeof__(gf_load_acquire(&gf_openmp.member)) function_;                                  \
        while (!(function_ = gf_load_acquire(&gf_openmp.member)))                                  \
            gf_relax();                                                                            \
        function_;                                                                                 \
    })

void gf_pin_batch_start(void)
{
    gf_store_release(&started, true);
}

void gf_pin_batch_unmaps(size_t bytes)
{
    if (bytes >= GF_TUNE_PIN_LEAST)
        own.regions = gf_min(own.regions + GF_TUNE_PIN_REGIONS, GF_TUNE_PIN_REGIONS_MOST);
}

static bool is_in_pin_memory(void)
{
    struct gf_pystack_frame frame;

    if (!gf_setup.python_frames || !gf_setup.python_frames(&frame, 1) || frame.inner ||
        frame.line - frame.first_line != PIN_LINE || strcmp(frame.function, "pin_memory") != 0)
        return false;
    const size_t length = strlen(frame.file), end = strlen(PIN_MEMORY);
    return length >= end && strcmp(frame.file + length - end, PIN_MEMORY) == 0;
}

/*
 * Returns a pool with enough running helpers. If no pool has enough, starts to prepare those of one,
 * and returns NULL. Makes no call of the driver, because a handler of a signal may call it meanwhile.
 */
static struct gf_pool *find_helpers(void)
{
    struct gf_pool *pool = gf_pool_with_helpers(GF_TUNE_PIN_HELPERS);
    struct gf_pool *any = pool ? NULL : gf_pool_with_helpers(0);

    if (any)
        gf_prepare_helpers(any, gf_when_now);
    return pool;
}

/*
 * A handler of faults would run on a helper, so a program that has one keeps its thread. A real-time
 * thread would get no helpers. Reading the frame takes longer than many an operation of PyTorch. So
 * a thread whose regions cannot be shared soon has no permitted one left, and pays no more.
 */
static GF_COLD struct gf_pool *find_pool_for_region(void)
{
    gf_keep_errno();
    struct gf_pool *pool = gf_load_acquire(&started) && ORIGINAL(max_threads)() == 1 &&
                                   !gf_permit_sealed() && gf_import_owner_is_here() &&
                                   is_in_pin_memory() && !gf_is_realtime() &&
                                   !gf_faults_are_handled()
                               ? find_helpers()
                               : NULL;
    if (!pool)
        own.regions /= 2;
    return pool;
}

static struct gf_pool *pool_for_region(void)
{
    return gf_unlikely(own.regions) && !own.inside ? find_pool_for_region() : NULL;
}

static bool do_piece(struct gf_pieces *job, uint64_t piece)
{
    const struct region *region = (struct region *)job;

    if (region->caller != &own && !own.allocates) {
        own.allocates = true;
        if (gf_setup.thread_allocates)
            gf_setup.thread_allocates();
    }
    own.piece = (int)piece;
    own.inside = true;
    region->work(region->data);
    own.inside = false;
    return true;
}

/* False: a handler of a signal forked meanwhile, and this is the child. The region can run again. */
static bool share(struct gf_pool *pool, void (*work)(void *), void *data)
{
    struct region region = {
        .job = {.work = do_piece, .max_helpers = GF_TUNE_PIN_HELPERS, .low_priority = true},
        .work = work,
        .data = data,
        .caller = &own};
    int state;

    gf_keep_errno();
    own.regions--;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    const bool ret = gf_pool_run(pool, &region.job, GF_TUNE_PIN_PIECES) == GF_PIECE_NONE;
    pthread_setcancelstate(state, NULL);
    return ret;
}

void gf_pin_batch_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags)
{
    struct gf_pool *pool = threads ? NULL : pool_for_region();

    if (pool && share(pool, work, data))
        gf_copy_stats_add(imports[gf_import_pin].calls, 1);
    else
        ORIGINAL(parallel)(work, data, threads, flags);
}

int gf_pin_batch_max_threads(void)
{
    /* a helper's own setting is the number of CPUs */
    if (gf_unlikely(own.inside))
        return 1;
    return pool_for_region() ? GF_TUNE_PIN_PIECES : ORIGINAL(max_threads)();
}

int gf_pin_batch_num_threads(void)
{
    return gf_unlikely(own.inside) ? GF_TUNE_PIN_PIECES : ORIGINAL(num_threads)();
}

int gf_pin_batch_thread_num(void)
{
    return gf_unlikely(own.inside) ? own.piece : ORIGINAL(thread_num)();
}

int gf_pin_batch_in_parallel(void)
{
    return gf_unlikely(own.inside) ? 1 : ORIGINAL(in_parallel)();
}
