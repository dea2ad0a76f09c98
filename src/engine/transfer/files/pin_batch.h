/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"

/*
 * GPUFEED_PARALLEL_PIN: helpers share the copies by which a DataLoader pins its batches. PyTorch copies
 * on one thread there, because its thread `pin_memory` sets the number of OpenMP threads to 1. The
 * pointers through which libtorch_cpu calls its OpenMP runtime lead to the functions below
 * (imports.h). They pass every call through, except on a thread that
 * - is in the line of torch.utils.data._utils.pin_memory.pin_memory that calls Tensor.pin_memory, by
 *   its innermost Python frame,
 * - has one OpenMP thread, and
 * - has unmapped large memory before, such as the previous batch.
 * There they divide a parallel region of PyTorch into pieces, as a team of so many threads would.
 * The regions of at::parallel_for have no barrier inside, so the pieces may run in any order, and
 * each piece on any thread. No thread of OpenMP is started, and no setting of OpenMP changes.
 */

/* Called before the calling thread unmaps `bytes` bytes. */
void gf_pin_batch_unmaps(size_t bytes);

/* From now on regions may be shared: all five pointers are replaced. */
void gf_pin_batch_start(void);

/* The functions of OpenMP; each calls `original` for all other threads and regions. */

struct gf_openmp {
    void (*_Atomic parallel)(void (*work)(void *), void *data, unsigned threads, unsigned flags);
    int (*_Atomic max_threads)(void);
    int (*_Atomic num_threads)(void);
    int (*_Atomic thread_num)(void);
    int (*_Atomic in_parallel)(void);
};

/* The runtime's functions, set before the first of these is called. */
extern struct gf_openmp gf_openmp;

void gf_pin_batch_parallel(void (*work)(void *), void *data, unsigned threads, unsigned flags);
int gf_pin_batch_max_threads(void);
int gf_pin_batch_num_threads(void);
int gf_pin_batch_thread_num(void);
int gf_pin_batch_in_parallel(void);
