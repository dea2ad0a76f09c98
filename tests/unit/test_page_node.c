/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the node of a block without touching it. */
#include "unit.h"

#include "os/memory.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 64

static size_t page;
static char *block;

static int map(void **state)
{
    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    block = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(block, MAP_FAILED);
    return madvise(block, PAGES * page, MADV_NOHUGEPAGE);
}

static int unmap(void **state)
{
    (void)state;
    return munmap(block, PAGES * page);
}

static unsigned present(void)
{
    unsigned char there[PAGES];
    unsigned ret = 0;

    assert_int_equal(mincore(block, PAGES * page, there), 0);
    for (unsigned i = 0; i < PAGES; i++)
        ret += there[i] & 1;
    return ret;
}

/* Returns the node of a page by get_mempolicy, which populates the page. */
static int node_of(void *address)
{
    int node = -1;
    if (syscall(SYS_move_pages, 0, 0UL, NULL, NULL, NULL, 0))
        skip_because("move_pages is not permitted");
    if (syscall(SYS_get_mempolicy, &node, NULL, 0UL, address,
                (unsigned long)(MPOL_F_NODE | MPOL_F_ADDR)))
        skip_because("get_mempolicy is not permitted");
    return node;
}

static void test_pages_that_are_not_there_stay_away(void **state)
{
    (void)state;
    assert_int_equal(gf_page_node(block, PAGES * page), -1);
    assert_int_equal(present(), 0);
}

static void test_node(void **state)
{
    (void)state;
    const int node = node_of(block);
    memset(block, 1, PAGES * page);
    assert_int_equal(gf_page_node(block, PAGES * page), node);
    assert_int_equal(gf_page_node(block + 5 * page + 100, 8), node);
    assert_int_equal(gf_page_node(block, 0), node);
}

/* If a block has few pages, all are sampled, including the last. */
static void test_few_pages(void **state)
{
    (void)state;
    block[PAGES * page - 1] = 1;
    assert_int_equal(gf_page_node(block, PAGES * page), node_of(block + (PAGES - 1) * page));
    assert_int_equal(present(), 1);
}

static void test_no_block(void **state)
{
    (void)state;
    errno = 77;
    assert_int_equal(gf_page_node(NULL, 100), -1);
    assert_int_equal(gf_page_node((void *)(uintptr_t)0x1000, 1 << 20), -1);
    assert_int_equal(gf_page_node((void *)~(uintptr_t)0xfff, 1), -1);
    assert_int_equal(errno, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pages_that_are_not_there_stay_away, map, unmap),
        cmocka_unit_test_setup_teardown(test_node, map, unmap),
        cmocka_unit_test_setup_teardown(test_few_pages, map, unmap),
        cmocka_unit_test_setup_teardown(test_no_block, map, unmap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
