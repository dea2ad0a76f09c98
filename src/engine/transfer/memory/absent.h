/* SPDX-License-Identifier: Apache-2.0 */
/* Whether memory of the program was ever touched. */
#ifndef GF_ENGINE_TRANSFER_MEMORY_ABSENT_H
#define GF_ENGINE_TRANSFER_MEMORY_ABSENT_H

#include "base/base.h"

/*
 * Whether most of `samples` pages, spread evenly over the range, are absent. Touches no page. False
 * if one of them is not mapped, or if this process may not call mincore. Any thread.
 */
bool gf_absent_mostly(uintptr_t start, size_t bytes, unsigned samples);

#endif
