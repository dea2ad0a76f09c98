/* SPDX-License-Identifier: Apache-2.0 */
#include "huge_pool.h"
#include "pinned_buffer_kit.h"

#include "engine/transfer/huge_pool.h"
#include "engine/transfer/range_policy.h"
#include "os/headroom.h"

static struct gf_options options;
static struct {
    uint64_t headroom;
    int node;
} machine;

void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset);
void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret);
int __wrap_gf_range_node_read(const void *at, size_t bytes);

void *__wrap_mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return flags & MAP_HUGETLB ? map_from_huge_pool(size, protection, flags)
                               : __real_mmap64(at, size, protection, flags, fd, offset);
}

void __wrap_gf_headroom_read(const char *root, int node, struct gf_headroom *ret)
{
    (void)root, (void)node;
    *ret = (struct gf_headroom){.bytes = machine.headroom};
}

int __wrap_gf_range_node_read(const void *at, size_t bytes)
{
    (void)at, (void)bytes;
    return machine.node;
}

static int request(void **state)
{
    options.pin_pages = gf_pin_pages_huge;
    gf_setup = (struct gf_transfer_setup){.options = &options, .cuda = &cuda};
    machine.headroom = GF_HEADROOM_UNKNOWN;
    huge_pool.has_pages = true;
    huge_pool.asked = 0;
    return start(state);
}

static bool is_present(const char *at, size_t bytes)
{
    unsigned char there[64 * 256];
    assert_true(bytes / 4096 <= sizeof(there));
    assert_int_equal(mincore((void *)(uintptr_t)at, bytes, there), 0);
    for (size_t i = 0; i < bytes / 4096; i++)
        if (!(there[i] & 1))
            return false;
    return true;
}

static void ordinary_pages_without_the_request(void **state)
{
    CUresult result;
    (void)state;
    options.pin_pages = gf_pin_pages_ordinary;
    assert_true(give(get(4 * MIB), &result));
    assert_int_equal(huge_pool.asked, 0);
}

/* The pages are populated, because a store to a page that the pool lacks would raise SIGBUS. */
static void reserved_pages_serve_a_buffer(void **state)
{
    CUresult result;
    (void)state;
    machine.headroom = MIB; /* does not limit reserved pages */
    char *p = get(33 * MIB + 4097);
    assert_int_equal(huge_pool.asked, 1);
    assert_ptr_equal(driver.at, p);
    assert_int_equal(driver.bytes, 33 * MIB + 4097);
    assert_true(is_present(p, 33 * MIB + 8192));
    for (size_t i = 0; i < 34 * MIB; i += 4096)
        assert_int_equal(p[i], 0);
    size_t mapped = 0;
    gf_pinned_buffer_mapping(p, &mapped);
    assert_int_equal(mapped, 34 * MIB);
    assert_true(give(p, &result));
    assert_false(is_mapped(p) || is_mapped(p + 34 * MIB - 4096));
}

static void empty_pool_is_asked_again(void **state)
{
    void *p = NULL;
    CUresult result;
    struct gf_fault fault;
    (void)state;
    huge_pool.has_pages = false;
    assert_true(give(get(4 * MIB), &result));
    assert_true(give(get(4 * MIB), &result));
    assert_int_equal(huge_pool.asked, 2);
    machine.headroom = MIB; /* limits ordinary pages */
    assert_false(alloc(&p, 4 * MIB, 1, &result, &fault));
    assert_null(fault.call);
    assert_int_equal(fault.error, ENOMEM);
}

static void pages_of_another_node_are_given_back(void **state)
{
    struct gf_range_policy node1 = {.mode = 1 /* MPOL_PREFERRED */};
    const struct gf_pinned_buffer_request wish = {
        .cuda = &cuda, .pool = pool(), .context = 5, .policy = &node1};
    struct gf_fault fault;
    CUresult result;
    (void)state;
    gf_set_add(&node1.nodes, 1);
    for (int node = 1; node >= 0; node--) {
        void *p = NULL;
        machine.node = node;
        assert_true(gf_huge_pool_is_on());
        assert_true(gf_pinned_buffer_alloc(&wish, &p, 4 * MIB, 1, &result, &fault));
        assert_true(gf_huge_pool_is_on() == (node == 1));
        assert_true(give(p, &result));
    }
    assert_int_equal(huge_pool.asked, 2);
    assert_true(give(get(4 * MIB), &result)); /* the next buffer does not ask again */
    assert_int_equal(huge_pool.asked, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(ordinary_pages_without_the_request, request),
        cmocka_unit_test_setup(reserved_pages_serve_a_buffer, request),
        cmocka_unit_test_setup(empty_pool_is_asked_again, request),
        cmocka_unit_test_setup(pages_of_another_node_are_given_back, request),
    };
    return cmocka_run_group_tests_name("huge_pool", tests, NULL, NULL);
}
