/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/pages/page_counts.h"

struct gf_page_counts gf_page_counts;

uint64_t gf_page_counts_missing(void)
{
    const uint64_t most = gf_load_relaxed(&gf_page_counts.large_most);
    return most - gf_min(most, gf_load_relaxed(&gf_page_counts.large));
}

void gf_page_counts_forget_most(void)
{
    gf_store_relaxed(&gf_page_counts.large_most, gf_load_relaxed(&gf_page_counts.large));
}
