/* SPDX-License-Identifier: Apache-2.0 */
/* Reverts what a program may have set for a range of pinned memory that it has freed. */
#ifndef GF_ENGINE_TRANSFER_PINNED_RANGE_RESET_H
#define GF_ENGINE_TRANSFER_PINNED_RANGE_RESET_H

#include "base/base.h"

/*
 * Makes the pages of the range readable and writable with the default protection key, and unlocks
 * them. A new mapping would have these properties. The range begins and ends with a page. False:
 * the kernel or a filter (os/permit.h) refuses; some properties may have changed. Changes errno.
 * Any thread.
 */
bool gf_range_reset(void *at, size_t bytes);

/*
 * Sets whether children that are forked later inherit the range. The kernel's lock of the address
 * space orders the call with forks. False: the kernel refuses. Changes errno. Any thread.
 */
bool gf_range_inherit(void *at, size_t bytes, bool on);

#endif
