/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zeroing what was somebody's before. A program seldom fills all of a pinned buffer, as frameworks round sizes up, and
 * looking whether a page is zero already takes a third of the time that writing it takes where the processor's
 * registers are wide; what is not zero is written as quickly as by memset (docs/transfers.md has the figures).
 */
#ifndef GF_TRANSFER_ZERO_H
#define GF_TRANSFER_ZERO_H

#include <stddef.h>

/* Any thread. Nobody else writes there. */
void gf_zero(char *at, size_t bytes);

#endif
