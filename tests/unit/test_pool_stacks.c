/* SPDX-License-Identifier: Apache-2.0 */
#include "poolkit.h"

#include "own_maps.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Each helper records the address of its stack once. */
static struct stacks {
    struct gf_pieces job;
    _Atomic unsigned told;
    uintptr_t at[8];
} stacks;

static bool tell_stack(struct gf_pieces *job, uint64_t piece)
{
    char here;
    (void)piece;
    stacks.at[gf_add_relaxed(&stacks.told, 1)] = (uintptr_t)&here;
    while (gf_load_relaxed(&stacks.told) < 4)
        usleep(100);
    gf_pieces_notify(job);
    return true;
}

static unsigned mapping_of(uintptr_t address)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    uintptr_t from, to;
    unsigned line = 1;
    assert_non_null(maps);
    while (fscanf(maps, "%" SCNxPTR "-%" SCNxPTR "%*[^\n]", &from, &to) == 2 &&
           (address < from || address >= to))
        line++;
    fclose(maps);
    return line;
}

/* Stacks are one mapping, even if there are holes that a single stack fits into. */
static void stacks_side_by_side(void **state)
{
    const size_t hole = (size_t)1 << 20;
    struct gf_pool *pool = pool_of(1020, 5);
    char *holes[8];

    (void)state;
    for (unsigned i = 0; i < GF_ARRAY_LEN(holes); i++) {
        holes[i] = mmap(NULL, 3 * hole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(holes[i] != MAP_FAILED);
        munmap(holes[i] + hole, hole);
    }
    assert_int_equal(gf_pool_start(pool), 0);
    await_helpers(pool, 4);
    stacks.job = (struct gf_pieces){.work = tell_stack, .total = 4};
    gf_pool_open(pool, &stacks.job, 4);
    while (!gf_pieces_is_finished(&stacks.job))
        usleep(100);
    gf_pool_close(pool, &stacks.job);
    for (unsigned i = 1; i < 4; i++) {
        assert_true(stacks.at[i] >> 20 != stacks.at[0] >> 20);
        assert_int_equal(mapping_of(stacks.at[i]), mapping_of(stacks.at[0]));
    }
    for (unsigned i = 0; i < GF_ARRAY_LEN(holes); i++)
        munmap(holes[i], 3 * hole);
}

/*
 * Runs in a child, because the limit cannot be raised again. A failed start unmaps all that it
 * mapped.
 */
static bool starts_none_and_takes_nothing(void)
{
    struct gf_pool *pool = pool_of(1021, 9);
    const size_t before = address_space();
    const struct rlimit limit = {before + ((size_t)11 << 19),
                                 RLIM_INFINITY}; /* space for five and a half stacks */

    return setrlimit(RLIMIT_AS, &limit) == 0 && gf_pool_start(pool) == ENOMEM &&
           gf_pool_has_failed(pool) && address_space() < before + ((size_t)1 << 20);
}

static void all_stacks_or_none(void **state)
{
    int status;
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip_because("a sanitizer needs address space of its own");
#endif
    const pid_t child = fork();
    if (child == 0)
        _exit(starts_none_and_takes_nothing() ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_side_by_side),
        cmocka_unit_test(all_stacks_or_none),
    };
    return cmocka_run_group_tests_name("pool_stacks", tests, NULL, NULL);
}
