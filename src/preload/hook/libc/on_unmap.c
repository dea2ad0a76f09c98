/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hook of munmap. In a process that uses a GPU, helpers may first remove the page table entries
 * of a large range, or may unmap the range later. All other calls pass through. A memory monitor
 * may redirect the heap's calls of munmap to this hook; they pass through, too.
 */
#include "preload/heap/heap.h"
#include "preload/hook/attach/engine_call.h"
#include "preload/hook/counters.h"
#include "preload/hook/originals/originals.h"

#include <sys/mman.h>

/* For a smaller range, waking the helpers takes as long as the time that they save. */
#define LEAST ((size_t)32 << 20)

/*
 * Offers the range to the engine. Returns true if the engine takes care of the range, so that
 * munmap must not be called.
 */
static GF_COLD bool unmap_range(void *at, size_t bytes)
{
    bool done = false;
    struct gf_engine_call call;
    const struct gf_transfer_ops *transfer = gf_engine_call_transfer(&call);

    if (!transfer)
        return false;
    gf_count(gf_hook_munmap);
    if (transfer->unmap)
        done = transfer->unmap(at, bytes);
    gf_engine_call_end(&call);
    return done;
}

int gf_on_munmap(void *at, size_t bytes)
{
    if (gf_unlikely(bytes >= LEAST) && gf_engine() && !gf_heap_unmaps() && unmap_range(at, bytes))
        return 0;
    return gf_originals()->munmap(at, bytes);
}
