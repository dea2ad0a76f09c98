/* SPDX-License-Identifier: Apache-2.0 */
/* Sharing a node's cores among its GPUs, so that the ranks that feed them do not share cores. */
#ifndef GF_PLACE_RANKS_H
#define GF_PLACE_RANKS_H

#include "place/verdict.h"

/*
 * The part of the CPUs `among` that belongs to one GPU of the node: whole cores, in blocks by PCI
 * order over all GPUs of the node, hidden ones included, so that jobs that see different GPUs do
 * not overlap. Where /sys does not tell the node of all GPUs, the launcher's local ranks are the
 * order. 0, -ENOENT when neither is known, -ERANGE when there are fewer cores than sharers.
 */
int gf_ranks_share(const struct gf_machine *machine, const struct gf_rank *rank,
                   const struct gf_gpu *gpu, unsigned node, const struct gf_cpus *among,
                   struct gf_cpus *ret);

#endif
