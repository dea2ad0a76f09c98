/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/context/visible.h"

#include "base/atomic.h"
#include "engine/transfer/setup/setup.h"

static bool is_pending(const struct gf_visible *visible)
{
    return gf_load_acquire(&visible->made) != gf_load_relaxed(&visible->seen);
}

static bool threads_are_pending(const struct gf_submit_table *table)
{
    for (unsigned i = 0; i < GF_SUBMITTERS_OWN; i++)
        if (is_pending(&table->submitters[i].own_visible))
            return true;
    return false;
}

/* Whether results of a blocking stream are pending, which the legacy stream waits for. */
static bool blocking_are_pending(const struct gf_submit_table *table)
{
    for (unsigned i = 0; i < GF_STREAM_SLOTS; i++)
        if (gf_load_relaxed(&table->slots[i].stream) > GF_SUBMIT_FILLING &&
            gf_load_relaxed(&table->slots[i].blocking) && is_pending(&table->slots[i].visible))
            return true;
    return false;
}

static struct gf_stream_slot *find_slot(struct gf_submit_table *table, CUstream stream)
{
    for (unsigned i = 0; i < GF_STREAM_SLOTS; i++)
        if (gf_load_acquire(&table->slots[i].stream) == (uintptr_t)stream)
            return &table->slots[i];
    return NULL;
}

/* Returns the stream's own count, and sets *ret_pending to whether an ordered stream has one. */
static struct gf_visible *find_count(struct gf_submit_table *table, CUstream stream,
                                     bool *ret_pending)
{
    struct gf_stream_slot *slot;

    *ret_pending = false;
    if (stream == CU_STREAM_LEGACY) {
        *ret_pending = blocking_are_pending(table) || threads_are_pending(table);
        return &table->legacy_visible;
    }
    if (stream == CU_STREAM_PER_THREAD) {
        const unsigned own = gf_setup.submitter();
        *ret_pending = is_pending(&table->legacy_visible);
        return own < GF_SUBMITTERS_OWN ? &table->submitters[own].own_visible : NULL;
    }
    slot = find_slot(table, stream);
    if (!slot)
        return NULL;
    *ret_pending = gf_load_relaxed(&slot->blocking) && is_pending(&table->legacy_visible);
    return &slot->visible;
}

bool gf_visible_is_pending(CUstream stream, struct gf_visible_mark *ret)
{
    bool pending;

    *ret = (struct gf_visible_mark){.of = NULL};
    if (!gf_setup.submissions)
        return true;
    ret->of = find_count(gf_setup.submissions, stream, &pending);
    if (!ret->of)
        return true;
    ret->made = gf_load_acquire(&ret->of->made);
    return pending || ret->made != gf_load_relaxed(&ret->of->seen);
}

void gf_visible_waited(const struct gf_visible_mark *mark)
{
    if (mark->of)
        gf_store_relaxed(&mark->of->seen, mark->made);
}
