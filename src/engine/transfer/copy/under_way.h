/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the bytes of the copies of pageable memory that are under way, by direction, and
 * separately for staged copies and for the driver's copies. Callers that copy at the same time
 * share threads, link and locks, so each copy takes longer than it would alone. If its duration is
 * divided by all bytes under way, the result is comparable with that of a copy that is alone.
 *
 * All functions may be called on any thread. They take no lock, read no clock, and make no CUDA
 * call.
 */
#ifndef GF_ENGINE_TRANSFER_COPY_UNDER_WAY_H
#define GF_ENGINE_TRANSFER_COPY_UNDER_WAY_H

#include "engine/transfer/stats.h"

enum gf_maker { gf_maker_library, gf_maker_driver, gf_maker_count };

/*
 * Called when a copy of the calling thread begins. Returns the bytes under way, this copy included.
 * If the thread left an earlier copy by longjmp, without gf_under_way_leave, that copy no longer
 * counts. If the thread ends before gf_under_way_leave, for example by pthread_cancel, its copies
 * no longer count either.
 */
uint64_t gf_under_way_enter(enum gf_direction direction, enum gf_maker maker, uint64_t bytes);

/*
 * Called when a copy of the calling thread ends. Returns the bytes that were under way until now,
 * this copy included. If the thread has no copy under way, the count does not change.
 */
uint64_t gf_under_way_leave(enum gf_direction direction, enum gf_maker maker);

/* Whether the driver copies pageable memory now, in any direction. */
bool gf_under_way_by_driver(void);

#endif
