/* SPDX-License-Identifier: Apache-2.0 */
/* From which sizes on staging pays, by direction and by how many threads copy. Any thread. */
#ifndef GF_TRANSFER_WORTH_H
#define GF_TRANSFER_WORTH_H

#include "transfer/stats.h"

/* Once, with the options there. */
void gf_worth_start(void);

/* Nobody has said from which size on. */
bool gf_worth_is_automatic(void);

/* Bytes below which a copy is the driver's, however many threads there are. */
size_t gf_worth_least(enum gf_direction direction);

/* Whether a pool of so many threads would make a copy faster; else why not. The pool is known from then on. */
bool gf_worth_with(unsigned threads, enum gf_direction direction, uint64_t bytes, enum gf_forward *ret_why);

/*
 * False: no pool known so far would make it faster, so nothing about it need be asked; with few CPUs that is seen in
 * the driver's time. Now and then it is true all the same: a context met later may have more threads.
 */
bool gf_worth_asking(enum gf_direction direction, uint64_t bytes, enum gf_forward *ret_why);

#endif
