/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a set of CPUs is enough to shrink a program to. */
#ifndef GF_PLACE_NEED_H
#define GF_PLACE_NEED_H

#include "base/cpus.h"

/*
 * How many CPUs a program that may use `allowed` of them must keep: a quarter, at least 4 and at
 * most 16 (a domain of an eight-domain EPYC holds an eighth of the CPUs and was the best place
 * measured), and no more than its CPU quota lets it use at once. quota 0 is none.
 */
unsigned gf_need_cpus(unsigned allowed, double quota);

#endif
