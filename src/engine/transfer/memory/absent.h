/* SPDX-License-Identifier: Apache-2.0 */
/* Whether pages of the program's memory are absent. */
#ifndef GF_ENGINE_TRANSFER_MEMORY_ABSENT_H
#define GF_ENGINE_TRANSFER_MEMORY_ABSENT_H

#include "base/base.h"

/*
 * Checks `samples` pages that are spread evenly over the range, and returns whether most of them
 * are absent. Touches no page. False if a checked page is not mapped, or if the kernel refuses
 * mincore. May be called on any thread.
 */
bool gf_absent_mostly(uintptr_t start, size_t bytes, unsigned samples);

#endif
