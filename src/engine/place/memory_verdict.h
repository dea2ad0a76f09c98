/* SPDX-License-Identifier: Apache-2.0 */
/* The memory half of the verdict. Pure; any thread. */
#ifndef GF_ENGINE_PLACE_MEMORY_VERDICT_H
#define GF_ENGINE_PLACE_MEMORY_VERDICT_H

#include "config/options.h"
#include "engine/machine/facts.h"
#include "engine/machine/machine.h"
#include "engine/machine/probe.h"
#include "engine/place/verdict_types.h"

/* How the CPUs were chosen, and where they are. The memory policy depends on both. */
enum gf_cpu_choice {
    gf_cpu_choice_free,   /* the library may choose among CPUs of the GPU's node */
    gf_cpu_choice_user,   /* the start mask is the user's */
    gf_cpu_choice_remote, /* no CPU of the GPU's node may be used, or too few to bind to */
    gf_cpu_choice_pinned, /* the program pinned threads of its own away from the GPU's node */
};

/*
 * Fills policy, policy_nodes and policy_reason of *ret, and remedy and warn. The caller has set
 * nodes and bound.
 */
void gf_memory_verdict_decide(const struct gf_machine *machine, const struct gf_facts *facts,
                              const struct gf_probe *probe, const struct gf_options *options,
                              enum gf_cpu_choice choice, struct gf_verdict *ret);

#endif
