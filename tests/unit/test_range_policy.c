/* SPDX-License-Identifier: Apache-2.0 */
/* The memory policy of the library's mappings. */
#include "unit.h"

#include "host/mempolicy.h"
#include "engine/transfer/range_policy.h"
#include "engine/transfer/setup.h"

static struct gf_options options;
static struct {
    bool set;
    int mode;
    struct gf_nodes nodes;
} user;

static bool user_policy(int *ret_mode, struct gf_nodes *ret_nodes)
{
    *ret_mode = user.mode;
    *ret_nodes = user.nodes;
    return user.set;
}

static struct gf_range_policy choose(int node)
{
    struct gf_range_policy policy = {.mode = 77, .nodes = {{77}}};
    gf_setup = (struct gf_transfer_setup){.options = &options, .user_policy = user_policy};
    gf_range_policy_choose(node, &policy);
    return policy;
}

static void assert_chosen(int node, int mode, uint64_t nodes)
{
    const struct gf_range_policy policy = choose(node);
    const struct gf_nodes wanted = {{nodes}};
    assert_int_equal(policy.mode, mode);
    assert_true(gf_set_equal(&policy.nodes, &wanted));
}

static void prefers_the_devices_node(void **state)
{
    (void)state;
    user.set = false;
    options.mem = gf_mem_auto;
    assert_chosen(1, GF_MPOL_PREFERRED, 2);
    assert_chosen(-1, GF_MPOL_DEFAULT, 0);
    options.mem = gf_mem_off;
    assert_chosen(1, GF_MPOL_DEFAULT, 0);
}

/* A user's strict membind or interleave policy stays unchanged. */
static void keeps_the_users_policy(void **state)
{
    (void)state;
    user.set = true;
    for (int mem = 0; mem < 2; mem++) {
        options.mem = mem ? gf_mem_off : gf_mem_auto;
        user.mode = GF_MPOL_BIND;
        user.nodes = (struct gf_nodes){{1}};
        assert_chosen(1, GF_MPOL_BIND, 1);
        assert_chosen(-1, GF_MPOL_BIND, 1);
        user.mode = 3 | 0x8000; /* MPOL_INTERLEAVE, MPOL_F_STATIC_NODES */
        user.nodes = (struct gf_nodes){{3}};
        assert_chosen(1, 3 | 0x8000, 3);
        user.mode = 4; /* MPOL_LOCAL */
        user.nodes = (struct gf_nodes){{0}};
        assert_chosen(1, GF_MPOL_DEFAULT, 0);
    }
}

static int current_mode(void)
{
    return gf_mempolicy_get();
}

static bool begin(int node, struct gf_range_policy *ret_before)
{
    gf_setup = (struct gf_transfer_setup){.options = &options, .user_policy = user_policy};
    return gf_call_policy_begin(node, ret_before);
}

static void prefers_the_devices_node_for_one_call(void **state)
{
    struct gf_range_policy before, again;
    const struct gf_nodes first = {{1}};

    (void)state;
    options.mem = gf_mem_auto;
    user.set = false;
    if (gf_mempolicy_set(GF_MPOL_PREFERRED, &first) || gf_mempolicy_set(GF_MPOL_DEFAULT, NULL))
        skip_because("this machine refuses memory policies, or has no node 0");
    assert_false(begin(-1, &before));
    options.mem = gf_mem_off;
    assert_false(begin(0, &before));
    options.mem = gf_mem_auto;
    user.set = true;
    assert_false(begin(0, &before));
    user.set = false;
    assert_int_equal(current_mode(), GF_MPOL_DEFAULT);
    assert_true(begin(0, &before));
    assert_true(gf_mempolicy_is(GF_MPOL_PREFERRED, &first));
    assert_false(begin(0, &again)); /* the policy already prefers this node */
    gf_call_policy_end(&before);
    assert_int_equal(current_mode(), GF_MPOL_DEFAULT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefers_the_devices_node),
        cmocka_unit_test(keeps_the_users_policy),
        cmocka_unit_test(prefers_the_devices_node_for_one_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
