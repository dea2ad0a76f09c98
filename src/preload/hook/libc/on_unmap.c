/* SPDX-License-Identifier: Apache-2.0 */
/*
 * munmap: passed through, except in a process that feeds a GPU. There the engine removes the page
 * table entries of a large range first, which several threads can do at once. A memory monitor may
 * redirect the heap's own calls to this hook; these are passed through.
 */
#include "preload/heap/heap.h"
#include "preload/hook/attach/engine_call.h"
#include "preload/hook/counters.h"
#include "preload/hook/originals/originals.h"

#include <sys/mman.h>

/* Below this size, waking the helper threads costs as much time as they save. */
#define LEAST ((size_t)32 << 20)

/* True: the engine has unmapped the range. */
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
