/* SPDX-License-Identifier: Apache-2.0 */
/*
 * munmap: passed on unchanged. Before a large one in a process that feeds a GPU the engine may take the
 * pages out of the tables, which several threads can do at once.
 */
#include "hook/counters.h"
#include "hook/originals.h"
#include "hook/visit.h"

#include <sys/mman.h>

/* Below it, waking the helpers costs what they save. */
#define LEAST ((size_t)32 << 20)

static GF_COLD void prepare(void *at, size_t bytes)
{
    struct gf_visit visit;
    const struct gf_transfer_ops *transfer = gf_visit_transfer(&visit);

    if (!transfer)
        return;
    gf_count(gf_hook_munmap);
    if (transfer->unmapping)
        transfer->unmapping(at, bytes);
    gf_visit_end(&visit);
}

GF_EXPORT int munmap(void *at, size_t bytes)
{
    if (gf_unlikely(bytes >= LEAST) && gf_engine())
        prepare(at, bytes);
    return gf_originals()->munmap(at, bytes);
}
