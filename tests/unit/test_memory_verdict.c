/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of docs/placement.md's decision table that concern memory. */
#include "verdict_row.h"

/*
 * If the user's policy names other nodes, the library places neither CPUs nor memory, so that both
 * stay together.
 */
static void users_policy_elsewhere(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.start_policy = GF_MPOL_BIND;
    row.facts.start_policy_nodes = (struct gf_nodes){{1}};
    assert_unbound(decide(), "memory policy bind:0, which excludes the GPU's node 1");
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    assert_true(row.verdict.warn);
    assert_non_null(strstr(row.verdict.remedy, "numactl --membind=1 COMMAND"));
    row.facts.start_policy = GF_MPOL_PREFERRED;
    assert_unbound(decide(), "memory policy preferred:0");
    assert_non_null(strstr(row.verdict.remedy, "numactl --preferred=1 COMMAND"));
    row.options.bind = gf_bind_force;
    assert_bound(decide(), gf_bound_node, NODE1);
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    /* If GPUFEED_MEM requests memory, it is placed together with the CPUs. */
    row.options.bind = gf_bind_auto;
    row.options.mem = gf_mem_preferred;
    assert_bound(decide(), gf_bound_node, NODE1);
    assert_policy(&row.verdict, GF_MPOL_PREFERRED, "1");
    /* A policy that permits the GPU's node, or names no nodes, does not prevent the binding. */
    row.options.mem = gf_mem_auto;
    row.facts.start_policy_nodes = (struct gf_nodes){{3}};
    assert_bound(decide(), gf_bound_node, NODE1);
    row.facts.start_policy_nodes = (struct gf_nodes){{0}};
    assert_bound(decide(), gf_bound_node, NODE1);
}

static void users_policy(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.start_policy = 3; /* numactl --interleave */
    row.facts.start_policy_nodes = (struct gf_nodes){{3}};
    assert_bound(decide(), gf_bound_node, NODE1);
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    assert_non_null(strstr(row.verdict.policy_reason, "interleave:0-1"));
    row.facts.start_policy_nodes = (struct gf_nodes){{0}};
    row.facts.start_policy = -EPERM; /* an unknown policy does not count as the user's */
    assert_policy(decide(), GF_MPOL_PREFERRED, "1");
}

static void refused_policy(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.probe.set_mempolicy = EPERM;
    assert_bound(decide(), gf_bound_node, NODE1);
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    assert_non_null(strstr(row.verdict.policy_reason, "EPERM"));
    assert_non_null(strstr(row.verdict.remedy, "--cap-add SYS_NICE"));
    assert_false(row.verdict.warn);
    row.options.mem = gf_mem_preferred;
    assert_true(decide()->warn);
    row.probe.set_mempolicy = GF_UNTRIED;
    assert_policy(decide(), GF_MPOL_DEFAULT, "");
    assert_non_null(strstr(row.verdict.policy_reason, "could not be tried"));
}

static void strict_memory(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.options.mem = gf_mem_strict;
    assert_policy(decide(), GF_MPOL_BIND, "1");
}

static void nodes_without_cpus(void **state)
{
    (void)state;
    set_up("grace", "0019:01:00.0");
    const struct gf_verdict *v = decide();
    assert_bound(v, gf_bound_node, "72-143");
    assert_policy(v, GF_MPOL_BIND, "0-1");
    row.facts.mems = (struct gf_nodes){{1 << 1 | 1 << 2}};
    assert_policy(decide(), GF_MPOL_BIND, "1");
    row.options.mem = gf_mem_strict;
    assert_policy(decide(), GF_MPOL_BIND, "1");
    tear_down(NULL);
    /* On a machine with GPU memory nodes, a memory expander only adds capacity. */
    set_up("grace", "0019:01:00.0");
    row.machine->nodes[2].is_gpu = false;
    assert_policy(decide(), GF_MPOL_BIND, "0-2");
}

/* Many nodes are empty, and one of eight has memory of a GPU. */
static void reserved_nodes(void **state)
{
    (void)state;
    set_up("gb200", "0009:02:00.0");
    assert_bound(decide(), gf_bound_node, "72-143");
    assert_policy(&row.verdict, GF_MPOL_BIND, "0-1");
    tear_down(NULL);
    set_up("gh200_quad", "000a:01:00.0");
    assert_bound(decide(), gf_bound_node, "144-215");
    assert_policy(&row.verdict, GF_MPOL_BIND, "0-3");
}

/*
 * Under MPOL_BIND, the kernel would kill the program when the nodes with CPUs are full, even if the
 * expander has free memory.
 */
static void memory_expander(void **state)
{
    (void)state;
    set_up("cxl", "0000:c1:00.0");
    assert_bound(decide(), gf_bound_node, "32-63,96-127");
    assert_policy(&row.verdict, GF_MPOL_PREFERRED_MANY, "0-1");
    row.facts.mems = (struct gf_nodes){{1 << 1 | 1 << 2}};
    assert_policy(decide(), GF_MPOL_PREFERRED_MANY, "1");
    row.probe.preferred_many = EINVAL; /* before Linux 5.15 */
    assert_policy(decide(), GF_MPOL_PREFERRED, "1");
    row.probe.set_mempolicy = EPERM;
    assert_policy(decide(), GF_MPOL_DEFAULT, "");
    row.probe = (struct gf_probe){0};
    row.options.mem = gf_mem_strict;
    assert_policy(decide(), GF_MPOL_BIND, "1");
}

static void gpu_on_a_node_without_cpus(void **state)
{
    (void)state;
    set_up("grace_device_node", "0019:01:00.0");
    assert_bound(decide(), gf_bound_node, "72-143");
    assert_set(&row.verdict.nodes, "1");
    assert_policy(&row.verdict, GF_MPOL_BIND, "0-1");
    /* If all nodes are equally far, or without distances, it is unknown which CPUs are near. */
    for (size_t i = 0; i < row.machine->node_count * row.machine->node_count; i++)
        row.machine->distances[i] = 20;
    assert_unbound(decide(), "unknown");
    assert_policy(&row.verdict, GF_MPOL_BIND, "0-1");
    free(row.machine->distances);
    row.machine->distances = NULL;
    assert_unbound(decide(), "unknown");
    assert_policy(&row.verdict, GF_MPOL_BIND, "0-1");
}

/* CPUs are bound, but no policy is set, because it would name no memory. */
static void node_without_memory(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.machine->nodes[1].has_memory = false;
    row.facts.mems = (struct gf_nodes){{1}};
    assert_bound(decide(), gf_bound_node, NODE1);
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    assert_non_null(strstr(row.verdict.policy_reason, "the GPU's node has no memory"));
    row.options.mem = gf_mem_strict;
    assert_policy(decide(), GF_MPOL_DEFAULT, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(users_policy_elsewhere), ROW(users_policy),       ROW(refused_policy),
        ROW(strict_memory),          ROW(nodes_without_cpus), ROW(gpu_on_a_node_without_cpus),
        ROW(memory_expander),        ROW(reserved_nodes),     ROW(node_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
