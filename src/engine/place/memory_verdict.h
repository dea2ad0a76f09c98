/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides the memory policy of a verdict. The function has no side effects, and may be called on
 * any thread.
 */
#ifndef GF_ENGINE_PLACE_MEMORY_VERDICT_H
#define GF_ENGINE_PLACE_MEMORY_VERDICT_H

#include "config/options.h"
#include "engine/machine/facts.h"
#include "engine/machine/machine.h"
#include "engine/machine/probe.h"
#include "engine/place/verdict_types.h"

/* How the CPUs were chosen, and where they are. The memory policy depends on this. */
enum gf_cpu_choice {
    gf_cpu_choice_free,   /* the library may bind to CPUs of the GPU's node */
    gf_cpu_choice_user,   /* the user narrowed the start mask */
    gf_cpu_choice_remote, /* the program may use no CPU of the GPU's node, or too few */
    gf_cpu_choice_pinned, /* the program pinned threads to CPUs that are not on the GPU's node */
};

/*
 * Sets policy, policy_nodes, policy_reason, remedy and warn of *ret. The caller has set nodes and
 * bound.
 */
void gf_memory_verdict_decide(const struct gf_machine *machine, const struct gf_facts *facts,
                              const struct gf_probe *probe, const struct gf_options *options,
                              enum gf_cpu_choice choice, struct gf_verdict *ret);

#endif
