/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of the copies of pageable memory that are under way, by direction, for the library's staged
 * copies and for the driver's. Several callers share threads, link and locks, so each of their
 * copies takes longer than it would alone. The duration of a copy, divided by all bytes under way,
 * is comparable with that of a single copy.
 *
 * Any thread; no lock, no clock, no CUDA call.
 */
#ifndef GF_ENGINE_TRANSFER_COPY_UNDER_WAY_H
#define GF_ENGINE_TRANSFER_COPY_UNDER_WAY_H

#include "engine/transfer/stats/copy_stats.h"

enum gf_maker { gf_maker_library, gf_maker_driver, gf_maker_count };

/*
 * The calling thread's copy begins. Returns the bytes under way, this copy included. A copy that
 * the thread left without gf_under_way_leave, by longjmp, ends here. If the thread ends before that
 * call, by pthread_cancel, its copies end with it.
 */
uint64_t gf_under_way_enter(enum gf_direction direction, enum gf_maker maker, uint64_t bytes);

/*
 * The calling thread's copy ends. Returns the bytes that were under way until now, this copy
 * included. If the thread has no copy under way, changes nothing.
 */
uint64_t gf_under_way_leave(enum gf_direction direction, enum gf_maker maker);

/* Whether the driver copies pageable memory now, in any direction. */
bool gf_under_way_by_driver(void);

#endif
