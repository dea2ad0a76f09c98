/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/process/process_state.h"

#include "base/clock.h"

#include <stdlib.h>

#define RANGES_MAX 65536

struct gf_process gf_process;

uint64_t gf_process_elapsed_ms(void)
{
    return (gf_now_ns() - gf_process.started_ns) / 1000000;
}

size_t gf_process_heap_ranges(struct gf_range **ret)
{
    const struct gf_heap_ops *heap = gf_process.preload->heap;
    /*
     * The heap may get more ranges between the two calls. Ranges that do not fit into the array are
     * omitted.
     */
    const size_t cap = heap->ranges ? gf_min(heap->ranges(NULL, 0), (size_t)RANGES_MAX) + 16 : 1;

    *ret = calloc(cap, sizeof(**ret));
    return *ret && heap->ranges ? gf_min(heap->ranges(*ret, cap), cap) : 0;
}
