/* SPDX-License-Identifier: Apache-2.0 */
/* The number of CPUs that a binding must leave a program. */
#ifndef GF_ENGINE_PLACE_MIN_CPUS_H
#define GF_ENGINE_PLACE_MIN_CPUS_H

#include "base/cpus.h"

/*
 * A quarter of `allowed`, but at least 4 and at most 16. Never more than the CPU quota (0 if
 * unlimited) lets the program use at once. The upper bound is 16, so that one of an EPYC's eight
 * NUMA domains suffices, because a binding to one domain was the fastest in measurements.
 */
unsigned gf_min_cpus(unsigned allowed, double quota);

#endif
