/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether staging pays on this machine, now: what it takes for a MiB beside what the driver has taken,
 * by direction, kind of call and size. Where it does not, as on CPUs that are busy, slow or few, copies
 * are the driver's for a while, and then tried again. Large copies always pay; they are not judged.
 *
 * Any thread; counts may be lost to others that count at the same time.
 */
#ifndef GF_TRANSFER_PACE_H
#define GF_TRANSFER_PACE_H

#include "transfer/stats.h"

/* False: the driver was faster lately. Each such answer brings the next trial nearer. */
bool gf_pace_allows(struct gf_copy_kind kind, uint64_t bytes);

/* A copy that was staged, as a whole, took so long from when its stream was done. */
void gf_pace_staged(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns);
/* The driver's call for one took so long: it may have waited for its stream, in the driver's disfavour. */
void gf_pace_driver(struct gf_copy_kind kind, uint64_t bytes, uint64_t ns);

#endif
