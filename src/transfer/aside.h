/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory that the program has unmapped, but whose pages a helper takes out of the tables and frees
 * when there is nothing to copy: the mapping was moved aside, which takes as long as it has page tables.
 */
#ifndef GF_TRANSFER_ASIDE_H
#define GF_TRANSFER_ASIDE_H

#include "base/base.h"

struct gf_pool;

/*
 * True: nothing is mapped there any more, as munmap would have left it. False: nothing has changed; there
 * is too little memory to free some of it later, or the kernel does not want to.
 * For one whole mapping of a file in /dev/shm that is shared and has no name any more. Keeps errno.
 */
bool gf_aside_move(struct gf_pool *pool, void *at, size_t bytes);

#endif
