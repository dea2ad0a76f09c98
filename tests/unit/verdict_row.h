/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of the decision table (docs/placement.md). Each test changes some facts of a plain
 * program.
 */
#ifndef GF_TESTS_UNIT_VERDICT_ROW_H
#define GF_TESTS_UNIT_VERDICT_ROW_H

#include "placing.h"

#include "host/mempolicy.h"
#include "host/verdict.h"

#include <errno.h>
#include <stdlib.h>

/* The facts of a plain program on a recorded machine, which each row changes. */
struct row {
    struct gf_machine *machine;
    struct gf_facts facts;
    struct gf_probe probe;
    struct gf_options options;
    struct gf_gpu gpus[8];
    size_t gpu_count;
    struct gf_verdict verdict;
};

static struct row row;

static void set_up(const char *machine, const char *bdf)
{
    memset(&row, 0, sizeof(row));
    row.machine = load_machine(machine);
    row.facts.start = row.facts.cpuset = row.machine->online;
    for (size_t i = 0; i < row.machine->node_count; i++)
        gf_set_add(&row.facts.mems, row.machine->nodes[i].id);
    row.facts.rank = (struct gf_rank){-1, -1, -1, -1, NULL};
    row.facts.threads = 1;
    gf_options_load(&row.options, NULL);
    row.gpu_count = 1;
    row.gpus[0] = (struct gf_gpu){.attr_node = -1, .nvml_node = -1};
    snprintf(row.gpus[0].bdf, sizeof(row.gpus[0].bdf), "%s", bdf);
}

static const struct gf_verdict *decide(void)
{
    gf_verdict_decide(row.machine, &row.facts, &row.probe, &row.options, row.gpus, row.gpu_count,
                      &row.verdict);
    /* These hold for each verdict. */
    assert_true(*row.verdict.reason && *row.verdict.policy_reason);
    assert_null(strstr(row.verdict.reason, "..."));
    assert_true(strlen(row.verdict.reason) < sizeof(row.verdict.reason) - 1);
    assert_true(strlen(row.verdict.remedy) < sizeof(row.verdict.remedy) - 1);
    assert_true(strlen(row.verdict.policy_reason) < sizeof(row.verdict.policy_reason) - 1);
    assert_true((row.verdict.bound == gf_bound_none) == gf_set_empty(&row.verdict.cpus));
    assert_true((row.verdict.policy == GF_MPOL_DEFAULT) == gf_set_empty(&row.verdict.policy_nodes));
    return &row.verdict;
}

static int tear_down(void **state)
{
    (void)state;
    gf_machine_free(row.machine);
    row.machine = NULL;
    return 0;
}

#define assert_bound(v, how, list)                                                                 \
    do {                                                                                           \
        assert_string_equal(gf_bound_name((v)->bound), gf_bound_name(how));                        \
        assert_set(&(v)->cpus, list);                                                              \
    } while (0)
#define assert_unbound(v, text)                                                                    \
    do {                                                                                           \
        assert_bound(v, gf_bound_none, "");                                                        \
        assert_non_null(strstr((v)->reason, text));                                                \
    } while (0)
#define assert_policy(v, mode, list)                                                               \
    do {                                                                                           \
        assert_int_equal((v)->policy, mode);                                                       \
        assert_set(&(v)->policy_nodes, list);                                                      \
    } while (0)

#define NODE1 "56-111,168-223" /* on the machine dual8 */

#define ROW(function) cmocka_unit_test_teardown(function, tear_down)

#endif
