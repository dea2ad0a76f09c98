/* SPDX-License-Identifier: Apache-2.0 */
/* The number of CPUs that a binding must leave a program. */
#ifndef GF_ENGINE_PLACE_MIN_CPUS_H
#define GF_ENGINE_PLACE_MIN_CPUS_H

#include "base/cpus.h"

/*
 * At least a quarter of `allowed`, but between 4 and 16, and no more than the CPU quota (0 if
 * unlimited) lets the program use at once. The upper bound is 16, because one NUMA domain of an
 * EPYC with eight domains has an eighth of the CPUs and was the fastest place measured.
 */
unsigned gf_min_cpus(unsigned allowed, double quota);

#endif
