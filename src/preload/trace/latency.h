/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histograms of call durations, by kind, size class and thread. Each power of two is divided into
 * two buckets. The table has a fixed size. The functions take no lock, and may be called on any
 * thread, also inside malloc. A forked child starts with its parent's counts.
 */
#pragma once

#include "abi/trace_api.h"

/*
 * Called before the other functions; idempotent. Calls pthread_atfork, because threads cache their
 * id, which differs in a forked child.
 */
void gf_latency_open(void);
void gf_latency_add(enum gf_timed kind, size_t size, uint64_t ns);
/* Called for a slow call that was not sampled. Only raises the maximum. */
void gf_latency_add_max(enum gf_timed kind, size_t size, uint64_t ns);

/* Calls fn with the sums over all threads (tid -1), then with each thread's rows. */
void gf_latency_each(gf_latency_fn *fn, void *closure);
