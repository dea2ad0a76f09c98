/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/segment.h"

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
    const struct gf_growth *growth =
        (const struct gf_growth *)((char *)job - offsetof(struct gf_growth, job));
    return madvise(growth->at + piece * HUGE, HUGE, MADV_POPULATE_WRITE) == 0;
}

/* Aligned, so that huge pages can be had. In a forked child it would be copied page by page. */
static char *map(size_t bytes, int node)
{
    struct gf_nodes nodes = {0};
    char *at = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    char *start = (char *)(((uintptr_t)at + HUGE - 1) & ~(HUGE - 1));
    if (start > at)
        munmap(at, (size_t)(start - at));
    munmap(start + bytes, (size_t)(at + HUGE - start));
    madvise(start, bytes, MADV_HUGEPAGE);
    if (!GF_PLANTED(is_inherited) && madvise(start, bytes, MADV_DONTFORK) != 0) {
        munmap(start, bytes);
        return NULL;
    }
    if (node >= 0 && node < GF_NODES_MAX) {
        gf_set_add(&nodes, (unsigned)node);
        gf_policy_set_range(start, bytes, GF_MPOL_PREFERRED, &nodes); /* first touch does it too */
    }
    return start;
}

bool gf_growth_start(struct gf_growth *growth, const struct gf_context *context, size_t bytes)
{
    if (!change(growth, growth_none, growth_starting))
        return false;
    growth->bytes = (bytes + HUGE - 1) & ~(HUGE - 1);
    growth->at = map(growth->bytes, context->node);
    growth->passed = 0;
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

static bool is_due(struct gf_growth *growth, size_t most)
{
    return __atomic_load_n(&growth->state, __ATOMIC_ACQUIRE) == growth_touching &&
           gf_pool_finished(&growth->job) &&
           (growth->bytes <= most ||
            __atomic_fetch_add(&growth->passed, 1, __ATOMIC_RELAXED) >= GF_TUNE_RING_PATIENCE);
}

/* The driver's answer, or OUT_OF_MEMORY where touching has failed. */
static CUresult pin(struct gf_growth *growth, const struct gf_context *context,
                    const char **ret_call)
{
    *ret_call = "madvise";
    if (gf_pool_close(context->pool, &growth->job) != GF_PIECE_NONE)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_call = "cuMemHostRegister";
    return gf_setup.cuda->cuMemHostRegister_v2(growth->at, growth->bytes, 0);
}

enum gf_grown gf_growth_finish(struct gf_growth *growth, const struct gf_context *context,
                               size_t most, char **ret_at, size_t *ret_bytes,
                               const char **ret_call, CUresult *ret_error)
{
    if (!is_due(growth, most) || !change(growth, growth_touching, growth_finishing))
        return gf_grown_not;
    *ret_error = pin(growth, context, ret_call);
    if (*ret_error == CUDA_SUCCESS) {
        *ret_at = growth->at;
        *ret_bytes = growth->bytes;
    } else {
        munmap(growth->at, growth->bytes);
    }
    set(growth, growth_none);
    return *ret_error == CUDA_SUCCESS ? gf_grown_ready : gf_grown_failed;
}

void gf_growth_cancel(struct gf_growth *growth, const struct gf_context *context)
{
    if (!change(growth, growth_touching, growth_finishing))
        return;
    gf_pool_close(context->pool, &growth->job);
    munmap(growth->at, growth->bytes);
    set(growth, growth_none);
}
