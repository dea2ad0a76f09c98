/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records copies of pageable memory that waited for earlier work of their own stream, with the line
 * of Python that made the copy. Reading a line takes some 100 us, so all threads together spend
 * about 1 % of the waits on it: of short waits, a random part is read and stands for the others.
 *
 * No function here allocates, takes a lock, reads the clock for a wait below the threshold, or
 * changes errno. The functions may be called on any thread.
 */
#pragma once

#include "abi/trace_api.h"

/* threshold_ns: shorter waits are ignored; 0: all waits are. Called once. */
void gf_copy_waits_start(uint64_t threshold_ns);
bool gf_copy_waits_wanted(void);

/* Records a copy that the calling thread made, and that waited for `ns` nanoseconds. */
void gf_copy_waits_add(bool to_device, uint64_t bytes, uint64_t ns);

/*
 * PyTorch copies without non_blocking=True by an asynchronous copy and a wait for the stream. So if
 * a thread waits for the stream to which its last submission was a copy of pageable memory, the
 * wait counts for that copy. submitted: the number of the thread's submissions until now; 0: not
 * known, and no wait counts.
 *
 * gf_copy_waits_queued is called after such a copy was queued behind unfinished work. _expect and
 * _forget are called around each wait for a stream, and _waited within it if it was timed.
 */
void gf_copy_waits_queued(uintptr_t stream, uint64_t bytes, uint64_t submitted);
void gf_copy_waits_expect(uintptr_t stream, uint64_t submitted);
void gf_copy_waits_waited(uint64_t ns);
void gf_copy_waits_forget(void);

/* gf_preload.copy_waits */
void gf_copy_waits_read(struct gf_copy_waits *ret);
