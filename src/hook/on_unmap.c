/* SPDX-License-Identifier: Apache-2.0 */
/*
 * munmap: passed on unchanged. A large one in a process that feeds a GPU the engine may do instead, or take
 * the pages out of the tables before, which several threads can do at once.
 */
#include "hook/counters.h"
#include "hook/originals.h"
#include "hook/visit.h"

#include <sys/mman.h>

/* Below it, waking the helpers costs what they save. */
#define LEAST ((size_t)32 << 20)

static GF_COLD bool unmap(void *at, size_t bytes)
{
    struct gf_visit visit;
    const struct gf_transfer_ops *transfer = gf_visit_transfer(&visit);
    bool done = false;

    if (!transfer)
        return false;
    gf_count(gf_hook_munmap);
    if (transfer->unmap)
        done = transfer->unmap(at, bytes);
    gf_visit_end(&visit);
    return done;
}

GF_EXPORT int munmap(void *at, size_t bytes)
{
    if (gf_unlikely(bytes >= LEAST) && gf_engine() && unmap(at, bytes))
        return 0;
    return gf_originals()->munmap(at, bytes);
}
