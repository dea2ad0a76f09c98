/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares staging with the driver by time per MiB, for each direction, kind of call and size.
 * Staging is slower on CPUs that are busy, slow or few. While it is slower, copies are left to the
 * driver for some time (a back-off that doubles), and then staging is tried again. A duration
 * begins when the earlier work on the copy's stream has ended. It is divided by all bytes that were
 * under way, because callers that copy at once share the link or the driver's lock.
 *
 * Any thread. If two threads update at once, one of the updates may be lost.
 */
#ifndef GF_ENGINE_TRANSFER_COPY_RATE_H
#define GF_ENGINE_TRANSFER_COPY_RATE_H

#include "engine/transfer/stats/copy_stats.h"

enum gf_rate_advice {
    gf_rate_stage,
    gf_rate_leave,   /* the driver was faster */
    gf_rate_measure, /* the driver was faster, and its call must be timed */
};

/* Each answer except gf_rate_stage shortens the current back-off by one copy. */
enum gf_rate_advice gf_rate_advise(struct gf_copy_kind kind, uint64_t bytes);

/*
 * Records the duration of a completely staged copy, or of the driver's call, measured from the time
 * when the stream was idle. under_way: the mean of the bytes that were under way during the copy,
 * at least `bytes` (under_way.h). The copy shared threads, lock or link with them.
 */
void gf_rate_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns, uint64_t under_way);
void gf_rate_driver(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns, uint64_t under_way);

/*
 * The same for asynchronous copies to the device that are queued behind unfinished work of their
 * stream. They are compared only with each other. A duration is that of the call: a staged call
 * reads the program's memory, and the driver's call may wait for that work.
 */
enum gf_rate_advice gf_rate_advise_queued(uint64_t bytes);
void gf_rate_staged_queued(uint64_t bytes, uint64_t ns, uint64_t under_way);
void gf_rate_driver_queued(uint64_t bytes, uint64_t ns, uint64_t under_way);

#endif
