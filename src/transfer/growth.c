/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/growth.h"

#include "host/policy.h"
#include "transfer/plant.h"
#include "transfer/setup.h"
#include "transfer/tuning.h"

#include <errno.h>
#include <sys/mman.h>

#define HUGE ((size_t)2 << 20)

enum {
    growth_none,
    growth_starting, /* the thread that set this has it alone */
    growth_touching, /* helpers have the job */
    growth_finishing, /* as growth_starting */
};

static bool change(struct gf_growth *growth, unsigned from, unsigned to)
{
    return __atomic_compare_exchange_n(&growth->state, &from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

static void set(struct gf_growth *growth, unsigned to)
{
    __atomic_store_n(&growth->state, to, __ATOMIC_RELEASE);
}

/* By helpers: first touch puts the pages on their node where no policy can. */
static bool touch(struct gf_job *job, uint64_t piece)
{
    struct gf_growth *growth = (struct gf_growth *)((char *)job - offsetof(struct gf_growth, job));
    if (madvise(growth->at + piece * HUGE, HUGE, MADV_POPULATE_WRITE) == 0)
        return true;
    __atomic_store_n(&growth->error, errno, __ATOMIC_RELAXED);
    return false;
}

/* NULL, and errno in *ret_fault. */
static char *refused(const char *call, struct gf_fault *ret_fault)
{
    *ret_fault = (struct gf_fault){.call = call, .error = errno};
    return NULL;
}

/* Aligned, so that huge pages can be had. In a forked child it would be copied page by page. */
static char *map(size_t bytes, int node, struct gf_fault *ret_fault)
{
    struct gf_nodes nodes = {0};
    char *at = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return refused("mmap", ret_fault);
    char *start = (char *)(((uintptr_t)at + HUGE - 1) & ~(HUGE - 1));
    if (start > at)
        munmap(at, (size_t)(start - at));
    munmap(start + bytes, (size_t)(at + HUGE - start));
    madvise(start, bytes, MADV_HUGEPAGE);
    if (!GF_PLANTED(is_inherited) && madvise(start, bytes, MADV_DONTFORK) != 0) {
        refused("madvise(MADV_DONTFORK)", ret_fault);
        munmap(start, bytes);
        return NULL;
    }
    if (node >= 0 && node < GF_NODES_MAX) {
        gf_set_add(&nodes, (unsigned)node);
        gf_policy_set_range(start, bytes, GF_MPOL_PREFERRED, &nodes); /* first touch does it too */
    }
    return start;
}

bool gf_growth_start(struct gf_growth *growth, const struct gf_context *context, size_t bytes,
                     struct gf_fault *ret_fault)
{
    if (!change(growth, growth_none, growth_starting))
        return true;
    growth->bytes = (bytes + HUGE - 1) & ~(HUGE - 1);
    growth->at = map(growth->bytes, context->node, ret_fault);
    growth->passed = 0;
    growth->error = 0;
    if (!growth->at) {
        set(growth, growth_none);
        return false;
    }
    growth->job = (struct gf_job){.work = touch, .patient = true};
    gf_pool_open(context->pool, &growth->job, growth->bytes / HUGE);
    if (gf_pool_threads(context->pool) == 1) /* nobody else would */
        while (gf_pool_help(&growth->job))
            ;
    set(growth, growth_touching);
    return true;
}

bool gf_growth_is_on(const struct gf_growth *growth)
{
    return __atomic_load_n(&growth->state, __ATOMIC_RELAXED) != growth_none;
}

/* By the thread that has it alone. */
static bool is_due(struct gf_growth *growth, size_t most)
{
    return gf_pool_finished(&growth->job) &&
           (growth->bytes <= most || growth->passed++ >= GF_TUNE_RING_PATIENCE);
}

static bool pin(struct gf_growth *growth, const struct gf_context *context,
                struct gf_fault *ret_fault)
{
    if (gf_pool_close(context->pool, &growth->job) != GF_PIECE_NONE) {
        *ret_fault =
            (struct gf_fault){.call = "madvise(MADV_POPULATE_WRITE)", .error = growth->error};
        return false;
    }
    *ret_fault = (struct gf_fault){.call = "cuMemHostRegister"};
    ret_fault->result = gf_setup.cuda->cuMemHostRegister_v2(growth->at, growth->bytes, 0);
    return ret_fault->result == CUDA_SUCCESS;
}

enum gf_grown gf_growth_finish(struct gf_growth *growth, const struct gf_context *context,
                               size_t most, char **ret_at, size_t *ret_bytes,
                               struct gf_fault *ret_fault)
{
    if (!change(growth, growth_touching, growth_finishing))
        return gf_grown_not;
    if (!is_due(growth, most)) {
        set(growth, growth_touching);
        return gf_grown_not;
    }
    *ret_at = growth->at;
    *ret_bytes = growth->bytes;
    const bool pinned = pin(growth, context, ret_fault);
    if (!pinned)
        munmap(growth->at, growth->bytes);
    set(growth, growth_none);
    return pinned ? gf_grown_ready : gf_grown_failed;
}

void gf_growth_cancel(struct gf_growth *growth, const struct gf_context *context)
{
    if (!change(growth, growth_touching, growth_finishing))
        return;
    gf_pool_close(context->pool, &growth->job);
    munmap(growth->at, growth->bytes);
    set(growth, growth_none);
}
