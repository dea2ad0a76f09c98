/* SPDX-License-Identifier: Apache-2.0 */
/* Takes readings of this process and this machine for the guard. */
#ifndef GF_ENGINE_PLACE_GUARD_READ_H
#define GF_ENGINE_PLACE_GUARD_READ_H

#include "engine/place/guard.h"
#include "engine/place/guard_deltas.h"

/*
 * Takes a reading. Before the first call, all bytes of *past are zero. If a step of widening would
 * remove CPUs from the mask, ret has 0 CPUs for this step. Allocates nothing and keeps errno. Takes
 * about 6 us for each thread, and 60 us for the machine.
 */
void gf_guard_read(struct gf_guard_deltas *past, const struct gf_cpus *bound,
                   const struct gf_cpus *socket, const struct gf_cpus *start,
                   struct gf_guard_reading *ret);

#endif
