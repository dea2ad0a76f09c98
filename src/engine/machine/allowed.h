/* SPDX-License-Identifier: Apache-2.0 */
/* The CPUs that the kernel would let this process use if its mask had not been narrowed. */
#ifndef GF_ENGINE_MACHINE_ALLOWED_H
#define GF_ENGINE_MACHINE_ALLOWED_H

#include "base/cpus.h"

/*
 * The CPUs that remain when a mask of all CPUs is set. A short-lived child process sets that mask,
 * so no mask of the program is ever widened. 0 or -errno.
 */
int gf_allowed_cpus(struct gf_cpus *ret);

#endif
