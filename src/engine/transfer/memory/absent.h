/* SPDX-License-Identifier: Apache-2.0 */
/* Whether pages of the program's memory are absent. */
#ifndef GF_ENGINE_TRANSFER_MEMORY_ABSENT_H
#define GF_ENGINE_TRANSFER_MEMORY_ABSENT_H

#include "base/base.h"

/*
 * Whether most of `samples` pages, spread evenly over the range, are absent. Touches no page. False
 * if a sampled page is not mapped, or if the kernel refuses mincore. Any thread.
 */
bool gf_absent_mostly(uintptr_t start, size_t bytes, unsigned samples);

#endif
