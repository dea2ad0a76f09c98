/* SPDX-License-Identifier: Apache-2.0 */
/* The layer's front: what the engine publishes to the hooks, and what it reports. */
#ifndef GF_TRANSFER_TRANSFER_H
#define GF_TRANSFER_TRANSFER_H

#include "hook/transfer_api.h"
#include "transfer/setup.h"
#include "transfer/stats.h"

/* Once, before anything else of this layer. NULL where nothing of it is wanted. */
const struct gf_transfer_ops *gf_transfer_start(const struct gf_transfer_setup *setup);

/* For the report, any thread. Makes no CUDA call. */
void gf_transfer_state(struct gf_transfer_state *ret);

#endif
