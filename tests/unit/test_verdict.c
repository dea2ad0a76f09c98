/* SPDX-License-Identifier: Apache-2.0 */
/* The decision table of docs/placement.md, row by row: CPUs. */
#include "verdict_row.h"

static void add_gpu(const char *bdf)
{
    struct gf_gpu *gpu = &row.gpus[row.gpu_count++];
    *gpu = (struct gf_gpu){.attr_node = -1, .nvml_node = -1};
    snprintf(gpu->bdf, sizeof(gpu->bdf), "%s", bdf);
}

static void binds_to_the_gpus_node(void **state)
{
    (void)state;
    set_up("dual8", "0000:9D:00.0");
    const struct gf_verdict *v = decide();
    assert_bound(v, gf_bound_node, NODE1);
    assert_policy(v, GF_MPOL_PREFERRED, "1");
    assert_set(&v->nodes, "1");
    assert_set(&v->socket, NODE1);
    assert_string_equal(v->node_source, "sysfs");
    assert_false(v->warn);
    assert_string_equal(v->remedy, "");
}

static void leaves_all_alone_when_off(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.options.bind = gf_bind_off;
    assert_unbound(decide(), "GPUFEED_BIND=off");
    assert_policy(&row.verdict, GF_MPOL_PREFERRED, "1");
    row.options.mem = gf_mem_off;
    assert_policy(decide(), GF_MPOL_DEFAULT, "");
    row.options.bind = gf_bind_auto;
    row.options.mem = gf_mem_auto;
    row.options.mode = gf_mode_observe;
    assert_unbound(decide(), "observe");
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    assert_set(&row.verdict.nodes, "1"); /* the node is still reported */
    row.options.mode = gf_mode_off;
    assert_unbound(decide(), "GPUFEED=off");
}

static void waits_for_a_gpu(void **state)
{
    (void)state;
    set_up("dual8", "");
    row.gpu_count = 0;
    assert_unbound(decide(), "no GPU");
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
}

static void single_node(void **state)
{
    (void)state;
    set_up("single_vm", "0000:00:06.0");
    row.gpus[0].attr_node = 0;
    assert_unbound(decide(), "single node");
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    assert_false(row.verdict.warn);
    row.options.bind = gf_bind_force;
    assert_unbound(decide(), "single node");
}

static void unknown_node(void **state)
{
    (void)state;
    set_up("dual8_vm", "0000:9d:00.0");
    assert_unbound(decide(), "unknown");
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    assert_null(row.verdict.node_source);
    /* The driver also answers 0 when it does not know the node. */
    row.gpus[0].attr_node = 0;
    assert_unbound(decide(), "unknown");
    /* A device that /sys does not show at all. */
    snprintf(row.gpus[0].bdf, sizeof(row.gpus[0].bdf), "0000:ee:00.0");
    assert_unbound(decide(), "unknown");
    /* A node that the machine does not have. */
    row.gpus[0].nvml_node = 7;
    assert_unbound(decide(), "unknown");
}

static void asks_nvml_then_the_driver(void **state)
{
    (void)state;
    set_up("dual8_vm", "0000:9d:00.0");
    row.gpus[0].attr_node = 1;
    assert_bound(decide(), gf_bound_node, NODE1);
    assert_string_equal(row.verdict.node_source, "driver attribute");
    row.gpus[0].nvml_node = 0;
    assert_bound(decide(), gf_bound_node, "0-55,112-167");
    assert_string_equal(row.verdict.node_source, "NVML");
    /* The node from /sys has precedence over those from NVML and the driver. */
    tear_down(NULL);
    set_up("dual8", "0000:9d:00.0");
    row.gpus[0].nvml_node = 0;
    assert_bound(decide(), gf_bound_node, NODE1);
}

static void list_of_cpus_names_a_socket(void **state)
{
    (void)state;
    set_up("four_nodes", "0000:c1:00.0");
    const struct gf_verdict *v = decide();
    assert_string_equal(v->node_source, "local_cpulist");
    assert_set(&v->nodes, "2-3");
    assert_bound(v, gf_bound_nodes, "32-63,96-127");
    assert_policy(v, GF_MPOL_DEFAULT, "");
}

static void users_mask_elsewhere(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.start = cpus_of("0-7");
    assert_unbound(decide(), "none of which");
    assert_true(row.verdict.warn);
    assert_non_null(strstr(row.verdict.remedy, "taskset -c " NODE1 " "));
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    row.facts.rank = (struct gf_rank){3, 8, 3, 8, "Slurm"};
    assert_unbound(decide(), "none of which");
    assert_non_null(strstr(row.verdict.remedy, "--gpu-bind=single:1"));
}

static void users_mask_near_or_across(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.start = cpus_of("60-63");
    assert_unbound(decide(), "which are on the GPU's node 1");
    assert_false(row.verdict.warn);
    row.facts.start = cpus_of("50-63");
    assert_unbound(decide(), "the mask is kept");
    assert_false(row.verdict.warn);
    /* GPUFEED_MEM=preferred applies also if the user chose the mask. */
    row.options.mem = gf_mem_preferred;
    assert_policy(decide(), GF_MPOL_PREFERRED, "1");
}

static void force_overrides(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.options.bind = gf_bind_force;
    row.facts.start = cpus_of("0-7");
    assert_bound(decide(), gf_bound_node, NODE1);
    row.facts.binder_source = "--numa-bind";
    row.facts.pinning_source = "OMP_PLACES";
    assert_bound(decide(), gf_bound_node, NODE1);
    /* The verdict does not go beyond the cpuset. */
    row.facts.cpuset = cpus_of("0-63");
    assert_bound(decide(), gf_bound_node, "56-63");
}

/* The guard of a forced binding widens to the allowed CPUs, never to fewer. */
static void force_and_the_socket(void **state)
{
    (void)state;
    set_up("snc4", "0000:c3:00.0");
    row.options.bind = gf_bind_force;
    row.facts.start = cpus_of("0-7");
    assert_bound(decide(), gf_bound_node, "40-47,104-111");
    assert_set(&row.verdict.socket, "32-63,96-127");
}

/* If a CPU of the user's mask goes offline, the mask still counts as the user's, not the container's. */
static void users_mask_and_a_lost_cpu(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.start = cpus_of("50-63");
    row.facts.cpuset = cpus_of("0-59,61-223");
    assert_unbound(decide(), "the mask is kept");
}

/*
 * If CPU numbers alternate between nodes, the list of CPUs is long. A truncated list would make the
 * suggested command wrong, so no command is suggested.
 */
static void commands_are_never_cut_off(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    for (size_t i = 0; i < row.machine->node_count; i++) {
        row.machine->nodes[i].cpus = (struct gf_cpus){0};
        for (unsigned cpu = row.machine->nodes[i].id; cpu < 224; cpu += 2)
            gf_set_add(&row.machine->nodes[i].cpus, cpu);
    }
    row.facts.start = cpus_of("2,4");
    assert_unbound(decide(), "none of which");
    assert_non_null(strstr(row.verdict.remedy, "numactl --cpunodebind=1 COMMAND"));
    assert_null(strstr(row.verdict.remedy, "..."));
    row.facts.cpuset = row.facts.start;
    assert_unbound(decide(), "not use any CPU of the GPU's node 1");
    assert_non_null(strstr(row.verdict.remedy, "lscpu prints it for node 1"));
    assert_null(strstr(row.verdict.remedy, "..."));
}

static void container_with_part_of_the_node(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.start = row.facts.cpuset = cpus_of("40-71");
    assert_bound(decide(), gf_bound_node, "56-71");
    assert_false(row.verdict.warn);
}

static void container_without_the_node(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.start = row.facts.cpuset = cpus_of("0-31");
    assert_unbound(decide(), "not use any CPU of the GPU's node 1");
    assert_true(row.verdict.warn);
    assert_non_null(strstr(row.verdict.remedy, "--cpuset-cpus " NODE1));
    /* Memory follows the CPUs, unless GPUFEED_MEM requests it. */
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    assert_non_null(strstr(row.verdict.policy_reason, "too few of the CPUs are near"));
    row.options.bind = gf_bind_force;
    assert_unbound(decide(), "not use any CPU of the GPU's node 1");
    row.options.bind = gf_bind_off;
    assert_policy(decide(), GF_MPOL_DEFAULT, "");
    row.options.mem = gf_mem_preferred;
    assert_policy(decide(), GF_MPOL_PREFERRED, "1");
}

/* A node whose CPUs are all in isolcpus= does not count as excluded by a container. */
static void isolated_node(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.start = row.facts.cpuset = cpus_of("0-55,112-167");
    row.facts.isolated = cpus_of(NODE1);
    assert_unbound(decide(), "isolcpus= isolates all CPUs of the GPU's node 1");
    assert_null(strstr(row.verdict.reason, "container"));
    assert_non_null(strstr(row.verdict.remedy, "taskset -c " NODE1 " COMMAND"));
    assert_true(row.verdict.warn);
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    /* Part of the node is isolated, and a container excludes the rest. */
    row.facts.isolated = cpus_of("56-60");
    assert_unbound(decide(), "container");
}

static void container_without_the_nodes_memory(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.mems = (struct gf_nodes){{1}};
    assert_unbound(decide(), "not use any memory of the GPU's node 1");
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    assert_true(row.verdict.warn);
    /* A machine of GPUFEED_MACHINE has nodes that this one lacks. */
    snprintf(row.options.machine, sizeof(row.options.machine), "/recorded");
    assert_bound(decide(), gf_bound_node, NODE1);
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
}

static void container_within_the_node(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.start = row.facts.cpuset = cpus_of("60-75");
    assert_unbound(decide(), "already");
    assert_policy(&row.verdict, GF_MPOL_PREFERRED, "1");
    assert_false(row.verdict.warn);
}

static void too_few_cpus_on_the_node(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.start = row.facts.cpuset = cpus_of("0-31,56-58");
    assert_bound(decide(), gf_bound_submitters, "56-58");
    assert_non_null(strstr(row.verdict.reason, "only 3 CPUs"));
    /* With a quota of three CPUs, more CPUs would have no use. */
    row.facts.cpu_quota = 2.5;
    assert_bound(decide(), gf_bound_node, "56-58");
    row.facts.cpu_quota = 0;
    row.options.bind = gf_bind_node;
    assert_bound(decide(), gf_bound_node, "56-58");
}

/* One or two CPUs are too few for the submitting threads and the driver's threads. */
static void two_cpus_on_the_node(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.start = row.facts.cpuset = cpus_of("0-31,56-57");
    assert_unbound(decide(),
                   "only 2 CPUs of node 1 may be used, but 9 are needed: nothing is bound");
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    row.facts.start = row.facts.cpuset = cpus_of("0-31,56");
    assert_unbound(decide(), "only 1 CPU of node 1");
    row.options.bind = gf_bind_node;
    assert_bound(decide(), gf_bound_node, "56");
}

/* The program pinned its only thread before cuInit. */
static void pinned_by_the_program(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.own = cpus_of("0-1");
    row.facts.all_own = true;
    assert_bound(decide(), gf_bound_node, NODE1); /* for threads that get the start mask back */
    assert_non_null(strstr(row.verdict.reason, "all its threads to CPUs 0-1, none of which is on"));
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    assert_non_null(strstr(row.verdict.policy_reason, "pinned threads"));
    assert_non_null(strstr(row.verdict.remedy, "CPUs " NODE1));
    assert_true(row.verdict.warn);
    /* If the CPUs are on the GPU's node, memory is placed there, too. */
    row.facts.own = cpus_of("56-57");
    assert_non_null(strstr(decide()->reason, "CPUs 56-57, which are kept"));
    assert_policy(&row.verdict, GF_MPOL_PREFERRED, "1");
    assert_false(row.verdict.warn);
    /* Other threads are bound; memory follows each thread's CPUs. */
    row.facts.own = cpus_of("0-1");
    row.facts.all_own = false;
    assert_bound(decide(), gf_bound_node, NODE1);
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    row.options.mem = gf_mem_preferred;
    assert_policy(decide(), GF_MPOL_PREFERRED, "1");
}

static void small_nodes(void **state)
{
    (void)state;
    /* The NUMA domain has enough CPUs, so the program is bound to it. */
    set_up("snc4", "0000:c3:00.0");
    assert_bound(decide(), gf_bound_node, "40-47,104-111");
    assert_set(&row.verdict.socket, "32-63,96-127");
    assert_policy(&row.verdict, GF_MPOL_PREFERRED, "5");
    tear_down(NULL);
    /*
     * The domain has too few CPUs, so the program is bound to the socket. Memory is still allocated
     * in the domain.
     */
    set_up("snc4_tiny", "0000:1b:00.0");
    assert_bound(decide(), gf_bound_socket, "0-15");
    assert_policy(&row.verdict, GF_MPOL_PREFERRED, "1");
    assert_non_null(strstr(row.verdict.reason, "bound to its socket"));
}

static void socket_on_request(void **state)
{
    (void)state;
    set_up("four_nodes", "0000:81:00.0");
    row.options.bind = gf_bind_socket;
    assert_bound(decide(), gf_bound_socket, "32-63,96-127");
    assert_policy(&row.verdict, GF_MPOL_PREFERRED, "2");
    row.facts.start = row.facts.cpuset = cpus_of("32-63");
    assert_unbound(decide(), "already");
}

static void quota_below_the_mask(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.cpu_quota = 6.5;
    assert_bound(decide(), gf_bound_node, NODE1);
    assert_non_null(strstr(row.verdict.reason, "quota of 6.5"));
    row.facts.cpu_quota = 200;
    assert_null(strstr(decide()->reason, "quota"));
}

static void pinned_threads_are_left_alone(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.pinning_source = "OMP_PROC_BIND";
    assert_unbound(decide(), "OMP_PROC_BIND");
    assert_policy(&row.verdict, GF_MPOL_PREFERRED, "1");
}

static void yields_to_a_framework(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.facts.binder_source = "ACCELERATE_CPU_AFFINITY";
    assert_unbound(decide(), "ACCELERATE_CPU_AFFINITY");
    assert_false(row.verdict.warn);
    /* Accelerate takes another GPU's node when CUDA_VISIBLE_DEVICES renumbers. */
    row.facts.start = cpus_of("0-55,112-167");
    assert_unbound(decide(), "away from the GPU's node 1");
    assert_true(row.verdict.warn);
}

static void refused_affinity(void **state)
{
    (void)state;
    set_up("dual8", "0000:9d:00.0");
    row.probe.set_affinity = EPERM;
    assert_unbound(decide(), "EPERM");
    assert_true(row.verdict.warn);
    row.probe.set_affinity = ENOSYS; /* a seccomp filter may return ENOSYS */
    assert_unbound(decide(), "ENOSYS");
    assert_true(row.verdict.warn);
    row.probe.set_affinity = GF_UNTRIED; /* the test thread could not be started */
    assert_bound(decide(), gf_bound_node, NODE1);
}

static void several_gpus(void **state)
{
    (void)state;
    set_up("dual8", "0000:1b:00.0");
    add_gpu("0000:43:00.0");
    assert_bound(decide(), gf_bound_node, "0-55,112-167");
    tear_down(NULL);
    set_up("snc4", "0000:1b:00.0");
    add_gpu("0000:43:00.0");
    assert_bound(decide(), gf_bound_nodes, "0-15,64-79");
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    tear_down(NULL);
    set_up("dual8", "0000:1b:00.0");
    add_gpu("0000:df:00.0");
    assert_unbound(decide(), "already");
    assert_set(&row.verdict.nodes, "0-1");
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
    /* If the node of one GPU is unknown, the set of nodes is unknown. */
    add_gpu("0000:ee:00.0");
    assert_unbound(decide(), "0000:ee:00.0 is unknown");
    assert_set(&row.verdict.nodes, "");
}

static void exclusive_cores(void **state)
{
    (void)state;
    set_up("dual8", "0000:c3:00.0");
    row.options.bind = gf_bind_exclusive;
    assert_bound(decide(), gf_bound_exclusive, "70-83,182-195");
    tear_down(NULL);
    /* It is unknown which GPUs share the node. The verdict warns, and the ranks share the CPUs. */
    set_up("dual8_vm", "0000:c3:00.0");
    row.options.bind = gf_bind_exclusive;
    snprintf(row.gpus[0].bdf, sizeof(row.gpus[0].bdf), "0000:ee:00.0");
    row.gpus[0].attr_node = 1;
    assert_bound(decide(), gf_bound_node, NODE1);
    assert_true(row.verdict.warn);
    assert_non_null(strstr(row.verdict.reason, "exclusive"));
}

static void split_machine(void **state)
{
    (void)state;
    set_up("split16", "0000:00:06.0");
    snprintf(row.options.machine, sizeof(row.options.machine), "split16");
    row.facts.mems = (struct gf_nodes){{1}};
    assert_bound(decide(), gf_bound_node, "8-15");
    assert_policy(&row.verdict, GF_MPOL_DEFAULT, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(binds_to_the_gpus_node),
        ROW(leaves_all_alone_when_off),
        ROW(waits_for_a_gpu),
        ROW(single_node),
        ROW(unknown_node),
        ROW(asks_nvml_then_the_driver),
        ROW(list_of_cpus_names_a_socket),
        ROW(users_mask_elsewhere),
        ROW(users_mask_near_or_across),
        ROW(force_overrides),
        ROW(force_and_the_socket),
        ROW(users_mask_and_a_lost_cpu),
        ROW(commands_are_never_cut_off),
        ROW(container_with_part_of_the_node),
        ROW(container_without_the_node),
        ROW(container_without_the_nodes_memory),
        ROW(container_within_the_node),
        ROW(too_few_cpus_on_the_node),
        ROW(two_cpus_on_the_node),
        ROW(pinned_by_the_program),
        ROW(small_nodes),
        ROW(socket_on_request),
        ROW(quota_below_the_mask),
        ROW(pinned_threads_are_left_alone),
        ROW(yields_to_a_framework),
        ROW(isolated_node),
        ROW(refused_affinity),
        ROW(several_gpus),
        ROW(exclusive_cores),
        ROW(split_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
