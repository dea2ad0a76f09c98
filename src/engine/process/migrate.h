/* SPDX-License-Identifier: Apache-2.0 */
/* Moves the pages that the heap had before the binding to the GPU's node. */
#ifndef GF_ENGINE_PROCESS_MIGRATE_H
#define GF_ENGINE_PROCESS_MIGRATE_H

#include <stdint.h>

/*
 * Moves pages until all are moved, or until the deadline (a time of gf_now_ns). Called on the
 * library's thread.
 */
void gf_migrate_step(uint64_t deadline_ns);

#endif
