/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/heap/budget.h"

struct gf_budget gf_budget;

void gf_budget_begin(struct gf_budget *budget, uint64_t start, uint64_t most, uint64_t now_ns)
{
    const int64_t live = gf_load_relaxed(&budget->live);

    gf_store_relaxed(&budget->start, (int64_t)start);
    gf_store_relaxed(&budget->most, (int64_t)most);
    gf_store_relaxed(&budget->check_at, (int64_t)start);
    gf_store_relaxed(&budget->top, live);
    gf_store_relaxed(&budget->bottom, live);
    for (unsigned i = 0; i < 2; i++) {
        gf_store_relaxed(&budget->peak[i], live);
        gf_store_relaxed(&budget->rise[i], 0);
    }
    gf_store_relaxed(&budget->window_ns, now_ns);
}

/* Begins a new window if the current one has ended. After two windows, neither counts. */
static void rotate(struct gf_budget *budget, uint64_t now_ns)
{
    uint64_t began = gf_load_relaxed(&budget->window_ns);

    if (now_ns - began < GF_BUDGET_WINDOW_NS || !gf_cas_relaxed(&budget->window_ns, &began, now_ns))
        return;
    const bool both = now_ns - began >= 2 * GF_BUDGET_WINDOW_NS;
    const int64_t live = gf_load_relaxed(&budget->live);
    const int64_t peak = both ? live : gf_load_relaxed(&budget->peak[0]);
    gf_store_relaxed(&budget->peak[1], peak);
    gf_store_relaxed(&budget->peak[0], live);
    gf_store_relaxed(&budget->rise[1], both ? 0 : gf_load_relaxed(&budget->rise[0]));
    gf_store_relaxed(&budget->rise[0], 0);
    gf_store_relaxed(&budget->top, gf_max(peak, live));
    gf_store_relaxed(&budget->bottom, live); /* an earlier fall earns nothing in this window */
}

static int64_t earned_alone(struct gf_budget *budget, int64_t rise)
{
    const int64_t trim = gf_load_relaxed(&budget->trim);
    const int64_t start = gf_load_relaxed(&budget->start), live = gf_load_relaxed(&budget->live);
    const int64_t holes = gf_min(gf_load_relaxed(&budget->holes), GF_BUDGET_HOLES_MAX);
    const int64_t fall = gf_load_relaxed(&budget->top) - live - holes;
    int64_t most = holes;

    if (fall < trim)
        most += trim;
    else if (trim >= 0 && fall < 2 * start)
        most = gf_max(most, gf_min(start, live / 2));
    return gf_min(rise, most);
}

uint64_t gf_budget_allowed(struct gf_budget *budget, uint64_t now_ns)
{
    rotate(budget, now_ns);
    const int64_t start = gf_load_relaxed(&budget->start);
    const int64_t rise =
        gf_max(gf_load_relaxed(&budget->rise[0]), gf_load_relaxed(&budget->rise[1]));
    const int64_t peak =
        gf_max(gf_load_relaxed(&budget->peak[0]), gf_load_relaxed(&budget->peak[1]));
    const int64_t most = gf_load_relaxed(&budget->most);
    const int64_t earned = most ? gf_min(rise, most) : earned_alone(budget, rise);
    const int64_t room = gf_max(peak - gf_load_relaxed(&budget->live), 0) + start;

    return start ? (uint64_t)gf_min(start + earned, room) : 0;
}

uint64_t gf_budget_excess(struct gf_budget *budget, uint64_t now_ns)
{
    const int64_t kept = gf_load_relaxed(&budget->unmanaged) ? gf_load_relaxed(&budget->pool)
                                                             : gf_budget_kept(budget);
    const int64_t allowed = (int64_t)gf_budget_allowed(budget, now_ns);

    return kept > allowed ? (uint64_t)(kept - allowed) : 0;
}
