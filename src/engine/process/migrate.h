/* SPDX-License-Identifier: Apache-2.0 */
/* Moves pages to the GPU's node that the heap had before the binding. */
#ifndef GF_ENGINE_PROCESS_MIGRATE_H
#define GF_ENGINE_PROCESS_MIGRATE_H

#include <stdint.h>

/*
 * Moves pages until the deadline (gf_now_ns) or until all are moved. Called on the library's
 * thread.
 */
void gf_migrate_step(uint64_t deadline_ns);

#endif
