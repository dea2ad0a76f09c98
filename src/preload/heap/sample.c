/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/sample.h"

#include "base/atomic.h"
#include "base/clock.h"
#include "preload/heap/jemalloc.h"
#include "preload/heap/mode.h"
#include "preload/heap/slowpath.h"

static struct gf_family sampled;
static _Atomic int left;

static void sample_done(enum gf_slowpath_call call, size_t size, uint64_t start)
{
    gf_slowpath_sampled(call, size, gf_now_ns() - start);
    if (gf_sub_relaxed(&left, 1) <= 1)
        gf_mode_set(gf_heap_mode_replace);
}

static void *sampled_malloc(size_t size)
{
    const uint64_t start = gf_now_ns();
    void *block = je_malloc(size);
    sample_done(gf_slowpath_malloc, size, start);
    return block;
}

static void *sampled_calloc(size_t count, size_t size)
{
    const uint64_t start = gf_now_ns();
    void *block = je_calloc(count, size);
    sample_done(gf_slowpath_calloc, block ? count * size : 0, start);
    return block;
}

static void *sampled_realloc(void *block, size_t size)
{
    const uint64_t start = gf_now_ns();
    void *moved = gf_jemalloc_realloc(block, size);
    sample_done(gf_slowpath_realloc, size, start);
    return moved;
}

/*
 * A thread without a cache may be ending (see tsd_fetch_slow in jemalloc_wraps.c). Its frees are
 * not timed, because je_malloc_usable_size would create a cache for the thread. je_free alone
 * creates none.
 */
static void sampled_free(void *block)
{
    if (!block)
        return;
    if (!je_tsd_tls.tcache_enabled) {
        gf_jemalloc_free(block);
        return;
    }
    const size_t size = gf_jemalloc_usable_size(block);
    const uint64_t start = gf_now_ns();
    gf_jemalloc_free(block);
    sample_done(gf_slowpath_free, size, start);
}

void gf_sample_start(unsigned calls)
{
    static bool filled;

    if (!filled) {
        sampled = gf_family_jemalloc;
#define GF_FAMILY_HOT(name, type, parameters, arguments) sampled.name = sampled_##name;
#include "abi/family.def"
        filled = true;
    }
    gf_store_relaxed(&left, (int)calls);
    gf_mode_set(gf_heap_mode_sampled);
}

const struct gf_family *gf_sample_family(void)
{
    return &sampled;
}
