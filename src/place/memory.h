/* SPDX-License-Identifier: Apache-2.0 */
/* The memory half of the verdict. */
#ifndef GF_PLACE_MEMORY_H
#define GF_PLACE_MEMORY_H

#include "place/verdict.h"

/* Fills policy, policy_nodes and policy_reason of *ret, whose nodes and bound are set. */
void gf_memory_decide(const struct gf_machine *machine, const struct gf_facts *facts,
                      const struct gf_probe *probe, const struct gf_options *options,
                      bool user_bound, struct gf_verdict *ret);

#endif
