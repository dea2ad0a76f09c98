/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduling priority of helper threads (GPUFEED_HELPER_PRIORITY). */
#ifndef GF_ENGINE_TRANSFER_POOL_PRIORITY_H
#define GF_ENGINE_TRANSFER_POOL_PRIORITY_H

#include "config/options.h"

/*
 * Gives the calling helper the requested priority. If the kernel refuses, the helper keeps its
 * priority. The first refusal in the process prints one line.
 */
void gf_priority_apply(enum gf_helper_priority priority);

#endif
