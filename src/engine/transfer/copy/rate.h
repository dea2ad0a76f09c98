/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "engine/transfer/stats.h"

/*
 * Compares the time per MiB of staged copies with that of the driver's copies, for each direction,
 * kind of call (synchronous or asynchronous) and size. Staging is slower than the driver if the
 * CPUs are busy, slow or few. Then a number of copies is left to the driver (a back-off, whose
 * length doubles), and staging is tried again. The duration of a copy is counted from the time when
 * the earlier work on its stream has ended. It is divided by the bytes of all copies that were
 * under way, because callers that copy at the same time share the link or the driver's lock.
 *
 * All functions may be called on any thread. If two threads update a mean at the same time, one of
 * the updates may be lost.
 */

enum gf_rate_advice {
    gf_rate_stage,
    gf_rate_leave,   /* leave the copy to the driver, which was faster */
    gf_rate_measure, /* leave the copy to the driver, and time the driver's call */
};

/*
 * The functions below take `queued`: the copy is an asynchronous one to the device, and is queued
 * behind unfinished work of its stream. Such copies are compared only with each other. Their duration
 * is that of the call: a staged call copies the program's memory into the ring, and the driver's call
 * may wait for the unfinished work.
 */

/*
 * Whether to stage a copy of this kind and size. Each answer except gf_rate_stage shortens the
 * current back-off by one copy.
 */
enum gf_rate_advice gf_rate_advise(struct gf_copy_kind kind, bool queued, uint64_t bytes);

/*
 * Record the duration of a completely staged copy, or of the driver's call for a copy. Unless the copy
 * is queued, `ns` contains no wait for earlier work on the stream, because the stream was idle when the
 * time began. `under_way` is the mean of the bytes that were under way when the copy began and when it
 * ended, at least `bytes`.
 */
void gf_rate_staged(struct gf_copy_kind kind, bool queued, uint64_t bytes, uint64_t ns,
                    uint64_t under_way);
void gf_rate_driver(struct gf_copy_kind kind, bool queued, uint64_t bytes, uint64_t ns,
                    uint64_t under_way);

/*
 * Counts the bytes of the copies of pageable memory that are under way, by direction, and
 * separately for staged copies and for the driver's copies. Callers that copy at the same time
 * share threads, link and locks, so each copy takes longer than it would alone. If its duration is
 * divided by all bytes under way, the result is comparable with that of a copy that is alone.
 *
 * All functions may be called on any thread. They take no lock, read no clock, and make no CUDA
 * call.
 */

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
