/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the CPUs that the kernel would let this process use if its mask had not been narrowed. */
#ifndef GF_ENGINE_MACHINE_ALLOWED_H
#define GF_ENGINE_MACHINE_ALLOWED_H

#include "base/cpus.h"

/*
 * Sets *ret to the mask that the kernel keeps when a process sets a mask of all CPUs. A short-lived
 * child process sets this mask, so no mask of the program is ever widened. Returns 0 or -errno.
 */
int gf_allowed_cpus(struct gf_cpus *ret);

#endif
