/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares staging with the driver by time per MiB, for each direction, kind of call and size.
 * Staging is slower on CPUs that are busy, slow or few. Then copies are left to the driver for a
 * while (a back-off that doubles), and staging is tried again. Only like is compared with like: a
 * duration begins when the earlier work on the copy's stream has ended, and it is divided by all
 * bytes that were under way, because callers that copy at once share the link or the driver's lock.
 *
 * Any thread. If two threads update at once, one of the updates may be lost.
 */
#ifndef GF_ENGINE_TRANSFER_COPY_RATE_H
#define GF_ENGINE_TRANSFER_COPY_RATE_H

#include "engine/transfer/stats/copy_stats.h"

enum gf_rate_advice {
    gf_rate_stage,
    gf_rate_leave,   /* the driver was faster */
    gf_rate_measure, /* the driver was faster, and its duration is wanted */
};

/* Each answer except gf_rate_stage shortens the current back-off by one copy. */
enum gf_rate_advice gf_rate_advise(struct gf_copy_kind kind, uint64_t bytes);

/*
 * Records the duration of a completely staged copy, or of the driver's call, measured from the time
 * when the stream was idle. under_way: the mean of the bytes that were under way meanwhile, at least
 * `bytes` (under_way.h). The copy shared threads, lock or link with them.
 */
void gf_rate_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns, uint64_t under_way);
void gf_rate_driver(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns, uint64_t under_way);

#endif
