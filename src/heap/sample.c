/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/sample.h"

#include "base/clock.h"
#include "heap/jemalloc.h"
#include "heap/replace.h"
#include "heap/slow.h"

static struct gf_family sampled;
static int left;

static void done(enum gf_slow_call call, size_t size, uint64_t start)
{
    gf_slow_sampled(call, size, gf_now_ns() - start);
    if (__atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED) <= 0)
        __atomic_store_n(&gf_heap_mode_now, gf_heap_mode_replace, __ATOMIC_RELEASE);
}

static void *malloc_(size_t size)
{
    const uint64_t start = gf_now_ns();
    void *block = je_malloc(size);
    done(gf_slow_malloc, size, start);
    return block;
}

static void *calloc_(size_t count, size_t size)
{
    const uint64_t start = gf_now_ns();
    void *block = je_calloc(count, size);
    done(gf_slow_calloc, block ? count * size : 0, start);
    return block;
}

static void *realloc_(void *block, size_t size)
{
    const uint64_t start = gf_now_ns();
    void *moved = gf_replace_realloc(block, size);
    done(gf_slow_realloc, size, start);
    return moved;
}

static void free_(void *block)
{
    if (!block)
        return;
    const size_t size = je_malloc_usable_size(block);
    const uint64_t start = gf_now_ns();
    je_free(block);
    done(gf_slow_free, size, start);
}

void gf_sample_start(unsigned calls)
{
    static bool filled;

    /* Called by one thread, ours. */
    if (!filled) {
        sampled = gf_family_replace;
        sampled.malloc = malloc_;
        sampled.calloc = calloc_;
        sampled.realloc = realloc_;
        sampled.free = free_;
        filled = true;
    }
    __atomic_store_n(&left, (int)calls, __ATOMIC_RELAXED);
    __atomic_store_n(&gf_heap_mode_now, gf_heap_mode_sampled, __ATOMIC_RELEASE);
}

const struct gf_family *gf_sample_family(void)
{
    return &sampled;
}
