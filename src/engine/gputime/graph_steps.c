/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/gputime/graph_steps.h"

#include "base/atomic.h"

#define OLD_NS UINT64_C(60000000000) /* a graph without a launch for this time leaves the table */

static struct {
    uint64_t launches; /* at the last sample */
    uint64_t at_ns;    /* when a sample last saw a launch */
    bool latest;       /* the last sample saw a launch */
} seen[GF_GRAPH_SLOTS];

void gf_graph_steps_see(struct gf_submit_table *table, uint64_t before_ns, uint64_t now,
                        gf_graph_steps_fn *launched)
{
    for (unsigned i = 0; i < GF_GRAPH_SLOTS; i++) {
        struct gf_graph_slot *slot = &table->graphs[i];
        const uintptr_t graph = gf_load_relaxed(&slot->graph);
        const uint64_t launches = gf_load_relaxed(&slot->launches);

        if (launches != seen[i].launches) {
            seen[i].launches = launches;
            seen[i].at_ns = now;
            /* The period of launches in each sample would be the samples' own. */
            if (graph && before_ns && !seen[i].latest)
                launched(before_ns + (now - before_ns) / 2, graph);
            seen[i].latest = true;
            continue;
        }
        seen[i].latest = false;
        if (graph && now - seen[i].at_ns > OLD_NS) {
            /* A hook may just count a launch; then a later graph gets it. */
            gf_store_relaxed(&slot->graph, 0);
        }
    }
}
