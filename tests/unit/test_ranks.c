/* SPDX-License-Identifier: Apache-2.0 */
#include "placing.h"

#include "host/locate.h"
#include "host/machine.h"

#include <errno.h>

static struct gf_gpu gpu_at(const char *bdf)
{
    struct gf_gpu gpu = {.attr_node = -1, .nvml_node = -1};
    snprintf(gpu.bdf, sizeof(gpu.bdf), "%s", bdf);
    return gpu;
}

static const struct gf_rank nobody = {-1, -1, -1, -1, NULL};

/*
 * The GPUs of a node divide its cores into equal parts. Each core, with its hyperthreads, is in one
 * part.
 */
static void splits_whole_cores(void **state)
{
    (void)state;
    struct gf_machine *machine = load_machine("dual8");
    struct gf_cpus all = {0};

    for (size_t i = 4; i < 8; i++) {
        const struct gf_gpu gpu = gpu_at(machine->gpus[i].bdf);
        struct gf_cpus share;
        assert_int_equal(gf_ranks_share(machine, &nobody, &gpu, 1, &machine->nodes[1].cpus, &share),
                         0);
        assert_int_equal(gf_set_count(&share), 28);
        assert_false(gf_set_meet(&share, &all));
        for (size_t c = 0; c < machine->core_count; c++)
            assert_true(!gf_set_meet(&machine->cores[c].cpus, &share) ||
                        gf_set_within(&machine->cores[c].cpus, &share));
        gf_set_or(&all, &all, &share);
    }
    assert_true(gf_set_equal(&all, &machine->nodes[1].cpus));
    gf_machine_free(machine);
}

/* GPUs that are hidden from the process count, too: the node's fourth GPU gets the last quarter. */
static void order_is_that_of_the_bus(void **state)
{
    (void)state;
    struct gf_machine *machine = load_machine("dual8");
    const struct gf_gpu gpu = gpu_at("0000:61:00.0");
    const struct gf_rank rank = {0, 1, 0, 1, "torchrun"};
    struct gf_cpus share;

    assert_int_equal(gf_ranks_share(machine, &rank, &gpu, 0, &machine->nodes[0].cpus, &share), 0);
    assert_set(&share, "42-55,154-167");
    gf_machine_free(machine);
}

static void part_of_the_node(void **state)
{
    (void)state;
    struct gf_machine *machine = load_machine("dual8");
    struct gf_cpus among = cpus_of("0-5,112-117"), share;
    struct gf_gpu gpu = gpu_at("0000:1b:00.0");

    /* Four GPUs share six cores: they get 1, 2, 1 and 2 cores. */
    assert_int_equal(gf_ranks_share(machine, &nobody, &gpu, 0, &among, &share), 0);
    assert_set(&share, "0,112");
    gpu = gpu_at("0000:43:00.0");
    assert_int_equal(gf_ranks_share(machine, &nobody, &gpu, 0, &among, &share), 0);
    assert_set(&share, "1-2,113-114");
    among = cpus_of("0-2,112-114");
    assert_int_equal(gf_ranks_share(machine, &nobody, &gpu, 0, &among, &share), -ERANGE);
    gf_machine_free(machine);
}

/* If /sys does not have the GPU's node, the launcher's local ranks determine the order. */
static void local_ranks_without_sysfs(void **state)
{
    (void)state;
    struct gf_machine *machine = load_machine("dual8_vm");
    const struct gf_gpu gpu = gpu_at("0000:9d:00.0");
    struct gf_rank rank = {1, 2, 1, 2, "torchrun"};
    struct gf_cpus share;

    assert_int_equal(gf_ranks_share(machine, &rank, &gpu, 1, &machine->nodes[1].cpus, &share), 0);
    assert_set(&share, "84-111,196-223");
    rank.local_size = -1;
    assert_int_equal(gf_ranks_share(machine, &rank, &gpu, 1, &machine->nodes[1].cpus, &share),
                     -ENOENT);
    gf_machine_free(machine);
}

static void need_has_bounds(void **state)
{
    (void)state;
    assert_int_equal(gf_min_cpus(2, 0), 2);
    assert_int_equal(gf_min_cpus(8, 0), 4);
    assert_int_equal(gf_min_cpus(32, 0), 8);
    assert_int_equal(gf_min_cpus(33, 0), 9);
    assert_int_equal(gf_min_cpus(256, 0), 16);
    assert_int_equal(gf_min_cpus(256, 1.5), 2);
    assert_int_equal(gf_min_cpus(256, 64), 16);
}

static void ranks_share_the_start_mask(void **state)
{
    const struct gf_cpus all = cpus_of("0-63"), own = cpus_of("0-7");
    struct gf_rank rank = {3, 8, 3, 8, "torchrun"};

    (void)state;
    assert_int_equal(gf_ranks_cpus(&rank, &all, &all, 0), 8);
    assert_int_equal(gf_ranks_cpus(&rank, &all, &all, 32), 4);
    assert_int_equal(gf_ranks_cpus(&rank, &all, &all, 2), 1);
    assert_int_equal(gf_ranks_cpus(&rank, &own, &all, 0), 0); /* the launcher chose these CPUs */
    rank.local_size = 1;
    assert_int_equal(gf_ranks_cpus(&rank, &all, &all, 0), 0);
    assert_int_equal(gf_ranks_cpus(&nobody, &all, &all, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_whole_cores), cmocka_unit_test(order_is_that_of_the_bus),
        cmocka_unit_test(part_of_the_node),   cmocka_unit_test(local_ranks_without_sysfs),
        cmocka_unit_test(need_has_bounds),    cmocka_unit_test(ranks_share_the_start_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
