/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver has said of memory, for copies that are the driver's whatever it is and are only counted by it.
 * With few CPUs a question is seen in the driver's time: many callers wait for the lock that it takes.
 *
 * Any thread. An answer may be old: what was freed meanwhile, and got again in another way, is told as what it was
 * until its turn to be asked for comes, one time in 16 of a thread. So nothing may be done by it.
 */
#ifndef GF_TRANSFER_RECALL_H
#define GF_TRANSFER_RECALL_H

#include "transfer/classify.h"

/* The kind of the memory at an address, 64 KiB of which are taken for one; gf_memory_unknown: ask. */
enum gf_memory gf_recall(CUdeviceptr at);
/* The driver was asked, and that is its answer. */
void gf_recall_keep(CUdeviceptr at, enum gf_memory kind);

#endif
