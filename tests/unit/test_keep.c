/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of freed pages, in this process: it holds the exported family, in replace mode. */
#include "unit.h"

#include "heap/heap.h"
#include "heap/huge.h"
#include "heap/jemalloc.h"
#include "heap/keep.h"
#include "heap/system.h"
#include "host/headroom.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static void a_part_of_the_room(void **state)
{
    (void)state;
    assert_int_equal(gf_keep_bound(16 * GIB, gf_profile_training, true), 4 * GIB);
    assert_int_equal(gf_keep_bound(16 * GIB, gf_profile_inference, true), GIB);
    /* Nobody lends what an idle process keeps. */
    assert_int_equal(gf_keep_bound(16 * GIB, gf_profile_training, false), GIB / 2);
    assert_int_equal(gf_keep_bound(GIB, gf_profile_training, false), 128 * MIB);
    assert_int_equal(gf_keep_bound(0, gf_profile_training, true), 4 * MIB);
    assert_int_equal(gf_keep_bound(GF_HEADROOM_UNKNOWN, gf_profile_training, true), 256 * MIB);
}

static size_t pages(const char *name)
{
    uint64_t epoch = 1;
    size_t value = 0, size = sizeof(value);
    char path[64];
    snprintf(path, sizeof(path), "stats.arenas.%s.%s", GF_ARENAS_ALL, name);
    je_mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
    assert_int_equal(je_mallctl(path, &value, &size, NULL, 0), 0);
    return value * sysconf(_SC_PAGESIZE);
}

static void fill(size_t size)
{
    char *block = malloc(size);
    memset(block, 1, size);
    __asm__ volatile("" ::"r"(block) : "memory");
    free(block);
}

/*
 * Dirty it is until jemalloc's clock moves on, at each 50 ms: then it may go as a whole. On a busy machine
 * that can fall between here and the next line.
 */
static void fill_dirty(size_t size)
{
    for (int i = 0; i < 50; i++) {
        fill(size);
        if (pages("pdirty") >= size)
            return;
    }
    fail_msg("nothing stays dirty");
}

static struct gf_heap_kept kept(void)
{
    struct gf_heap_kept kept;
    gf_heap_ops()->kept(&kept);
    return kept;
}

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static void counts_what_jemalloc_counts(void **state)
{
    (void)state;
    size_t active = 0, size = sizeof(active);
    char *block = malloc(40 * MIB);
    block = realloc(block, 30 * MIB); /* in place */
    block = realloc(block, 36 * MIB);
    pages("pdirty"); /* reads anew */
    assert_int_equal(je_mallctl("stats.active", &active, &size, NULL, 0), 0);
    const struct gf_heap_kept now = kept();
    assert_true(now.ours);
    assert_int_equal(gf_system_mapped() - now.most, active);
    free(block);
}

/* Lent pages are still there: no fault when they are used again; given back they are not. */
static void lends_and_gives_back(void **state)
{
    (void)state;
    const struct gf_heap_ops *ops = gf_heap_ops();
    fill_dirty(64 * MIB);
    assert_true(kept().freed >= 64 * MIB);
    const struct gf_heap_kept before = kept();
    assert_true(ops->lend());
    assert_true(pages("pdirty") < MIB && pages("pmuzzy") >= 64 * MIB);
    assert_true(kept().lent_bytes - before.lent_bytes >= 64 * MIB);
    assert_int_equal(kept().given_back_bytes, before.given_back_bytes);
    assert_int_equal(kept().lends - before.lends, 1);
    assert_int_equal(kept().freed, 0);
    const long warm = faults();
    fill(64 * MIB);
    assert_true(faults() - warm < 64);

    fill_dirty(64 * MIB); /* the decay is on again */
    assert_true(ops->give_back());
    assert_true(pages("pdirty") < MIB && pages("pmuzzy") < MIB);
    assert_true(kept().given_back_bytes - before.given_back_bytes >= 64 * MIB);
    const long cold = faults();
    fill(64 * MIB);
    assert_true(faults() - cold >= 32); /* huge pages may serve it */
}

/* The count of freed bytes is what leads to a look, and more than the bound is lent. */
static void looks_and_lends_by_itself(void **state)
{
    (void)state;
    char *blocks[40];
    struct gf_heap_kept before = kept();
    for (int i = 0; i < 20; i++)
        fill(64 * MIB);
    assert_true(kept().looks > before.looks);
    const uint64_t bound = kept().bound;
    assert_int_equal(bound, gf_keep_bound(kept().room, gf_profile_training, false));
    if (bound > GF_ARRAY_LEN(blocks) * 16 * MIB)
        skip_because("more room than is worth filling");
    /* Touched in part, or the machine would have to have it. */
    before = kept();
    for (size_t i = 0; i < GF_ARRAY_LEN(blocks); i++)
        memset(blocks[i] = malloc(16 * MIB), 1, MIB);
    for (size_t i = 0; i < GF_ARRAY_LEN(blocks); i++)
        free(blocks[i]);
    assert_true(kept().lends > before.lends);
    assert_true(pages("pdirty") <= bound + bound / 8 + 16 * MIB);
}

static uint64_t lazily_freed(void)
{
    char line[128];
    unsigned long kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof(line), file))
        sscanf(line, "LazyFree: %lu kB", &kib);
    if (file)
        fclose(file);
    return (uint64_t)kib << 10;
}

static void the_kernel_may_take_it(void **state)
{
    (void)state;
    fill(64 * MIB);
    gf_heap_ops()->lend();
    if (access("/proc/self/smaps_rollup", R_OK) != 0)
        skip_because("no smaps_rollup here");
    assert_true(lazily_freed() >= 60 * MIB);
}

/* What the child left with: 0 when it keeps nothing of its parent's. */
static int leave_with(size_t most)
{
    const size_t kept_here = pages("pdirty") + pages("pmuzzy");
    free(malloc(100));
    return kept_here <= most ? 0 : 1;
}

static int status_of_child(size_t most)
{
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(10);
        _exit(leave_with(most));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void a_child_keeps_nothing_of_its_parents(void **state)
{
    (void)state;
    fill_dirty(64 * MIB);
    const size_t before = pages("pdirty") + pages("pmuzzy");
    assert_int_equal(status_of_child(MIB), 0);
    assert_int_equal(pages("pdirty") + pages("pmuzzy"), before); /* the parent's own are untouched */
    gf_heap_ops()->lend();
    assert_int_equal(status_of_child(MIB), 0);
}

/* What the kernel gives slowly, or not at all, is not asked for again. */
static void huge_pages_have_an_end(void **state)
{
    (void)state;
    const uint64_t quick = 200000, slow = 5000000;
    struct gf_huge_guard guard = {0};
    for (int i = 0; i < 1000; i++)
        assert_false(gf_huge_judge(&guard, i % 8 ? quick : slow, i % 2)); /* two of 16, eight */
    guard = (struct gf_huge_guard){0};
    assert_false(gf_huge_judge(&guard, slow, true));
    assert_false(gf_huge_judge(&guard, slow, true));
    assert_true(gf_huge_judge(&guard, slow, true));
    guard = (struct gf_huge_guard){0};
    for (int i = 0; i < 8; i++)
        assert_false(gf_huge_judge(&guard, quick, false));
    assert_true(gf_huge_judge(&guard, quick, false));
}

static void *lend_until_told(void *stop)
{
    while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
        fill(4 * MIB);
        gf_heap_ops()->lend();
    }
    return NULL;
}

/* Forked while another thread lends: the decay of each arena is what it was, and lending works. */
static void a_child_of_a_lender_goes_on(void **state)
{
    (void)state;
    bool stop = false;
    pthread_t thread;
    int good = 0;
    char *block = malloc(32 * MIB); /* so that the children have something to give back */
    memset(block, 1, 32 * MIB);
    free(block);
    assert_int_equal(pthread_create(&thread, NULL, lend_until_told, &stop), 0);
    for (int i = 0; i < 30; i++) {
        int status = -1;
        const pid_t pid = fork();
        if (pid == 0) {
            ssize_t decay = 0;
            size_t size = sizeof(decay);
            alarm(10);
            je_mallctl("arena.0.dirty_decay_ms", &decay, &size, NULL, 0);
            _exit(decay != je_opt_dirty_decay_ms || !gf_heap_ops()->lend());
        }
        waitpid(pid, &status, 0);
        good += status == 0;
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    assert_int_equal(good, 30);
}

static unsigned wakes;

static void count_wake(void)
{
    wakes++;
}

/* The watch sleeps while little is dirty: woken once when much is, and again only if it asks again. */
static void wakes_who_asked(void **state)
{
    (void)state;
    const struct gf_heap_ops *ops = gf_heap_ops();
    assert_true(ops->lend());
    ops->watched(count_wake);
    fill(8 * MIB);
    ops->watched(count_wake);
    fill(8 * MIB);
    assert_int_equal(wakes, 0);
    for (int i = 0; i < 4; i++)
        fill(64 * MIB);
    assert_int_equal(wakes, 1);
    assert_true(ops->lend());
    fill(64 * MIB);
    assert_int_equal(wakes, 1);
    assert_true(ops->lend());
    ops->watched(count_wake);
    fill(8 * MIB);
    assert_int_equal(wakes, 1);
    for (int i = 0; i < 2; i++)
        fill(40 * MIB); /* far below the bound, which would lead to a look too */
    assert_int_equal(wakes, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_of_the_room),
        cmocka_unit_test(counts_what_jemalloc_counts),
        cmocka_unit_test(lends_and_gives_back),
        cmocka_unit_test(looks_and_lends_by_itself),
        cmocka_unit_test(the_kernel_may_take_it),
        cmocka_unit_test(a_child_keeps_nothing_of_its_parents),
        cmocka_unit_test(huge_pages_have_an_end),
        cmocka_unit_test(a_child_of_a_lender_goes_on),
        cmocka_unit_test(wakes_who_asked), /* last: this process counts as watched then */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
