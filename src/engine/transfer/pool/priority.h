/* SPDX-License-Identifier: Apache-2.0 */
/* The scheduling priority of helper threads (GPUFEED_HELPER_PRIORITY). */
#ifndef GF_ENGINE_TRANSFER_POOL_PRIORITY_H
#define GF_ENGINE_TRANSFER_POOL_PRIORITY_H

#include "config/options.h"

/*
 * Gives the calling helper the requested priority. Returns 0, or an errno if the kernel refuses. Then
 * the helper keeps its priority. Prints nothing, because helpers have no standard error.
 */
int gf_priority_apply(enum gf_helper_priority priority);
/* Prints one line about the first refusal in the process. Not called on helpers. */
void gf_priority_warn(enum gf_helper_priority priority, int error);

#endif
