/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/machine.h"

#include <stdlib.h>

void gf_machine_free(struct gf_machine *machine)
{
    if (!machine)
        return;
    free(machine->nodes);
    free(machine->distances);
    free(machine->cores);
    free(machine->gpus);
    free(machine);
}

const struct gf_node *gf_machine_node(const struct gf_machine *machine, unsigned id)
{
    for (size_t i = 0; i < machine->node_count; i++)
        if (machine->nodes[i].id == id)
            return &machine->nodes[i];
    return NULL;
}

unsigned gf_machine_distance(const struct gf_machine *machine, unsigned from, unsigned to)
{
    const struct gf_node *a = gf_machine_node(machine, from), *b = gf_machine_node(machine, to);
    if (!a || !b || !machine->distances)
        return 0;
    return machine->distances[(size_t)(a - machine->nodes) * machine->node_count +
                              (size_t)(b - machine->nodes)];
}

void gf_machine_package_cpus(const struct gf_machine *machine, int package, struct gf_cpus *ret)
{
    *ret = (struct gf_cpus){0};
    for (size_t i = 0; i < machine->node_count; i++)
        if (package >= 0 && machine->nodes[i].package == package)
            gf_set_or(ret, ret, &machine->nodes[i].cpus);
}
