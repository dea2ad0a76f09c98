/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests freed memory of this process, which links the exported malloc family and is in mode replace.
 */
#include "unit.h"

#include "preload/heap/heap.h"
#include "preload/heap/fork.h"
#include "preload/heap/reclaim.h"
#include "preload/heap/first_touch.h"
#include "preload/heap/jemalloc.h"
#include "preload/heap/mappings.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static size_t pages(const char *name)
{
    uint64_t epoch = 1;
    size_t value = 0, page = 0, size = sizeof(value);
    char path[64];
    snprintf(path, sizeof(path), "stats.arenas.%s.%s", GF_ARENAS_ALL, name);
    je_mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
    assert_int_equal(je_mallctl(path, &value, &size, NULL, 0), 0);
    /* jemalloc's pages may be larger than the kernel's. */
    assert_int_equal(je_mallctl("arenas.page", &page, &size, NULL, 0), 0);
    return value * page;
}

static void fill(size_t size)
{
    char *block = malloc(size);
    memset(block, 1, size);
    __asm__ volatile("" ::"r"(block) : "memory");
    free(block);
}

static struct gf_heap_retained retained(void)
{
    struct gf_heap_retained ret;
    gf_heap_ops()->retained(&ret);
    return ret;
}

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static size_t free_pages(void)
{
    return pages("pdirty") + pages("pmuzzy");
}

/* Blocks of this size are jemalloc's. */
static void fill_small(size_t size)
{
    static char *blocks[1024];
    const size_t count = size / MIB;

    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(MIB);
        memset(blocks[i], 1, MIB);
    }
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
}

static void counts_what_jemalloc_counts(void **state)
{
    (void)state;
    gf_heap_ops()->purge();
    assert_true(retained().managed);
    char *block = malloc(3 * MIB);
    block = realloc(block, 2 * MIB);
    assert_int_equal(retained().max_bytes, free_pages());
    free(block);
    fill_small(5 * MIB);
    assert_int_equal(retained().max_bytes, free_pages());
    assert_true(free_pages() >= 5 * MIB);
    gf_heap_ops()->purge();
    assert_int_equal(retained().max_bytes, free_pages());
    assert_true(free_pages() < MIB / 4);
}

/* Without an engine, and after any number of rounds. */
static void keeps_the_start_budget(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        fill(64 * MIB);
        assert_in_range(retained().limit, 7 * MIB, 8 * MIB); /* some blocks are live */
        assert_true(retained().max_bytes <= retained().limit);
        fill_small(64 * MIB);
        assert_true(retained().max_bytes <= retained().limit);
        assert_true(free_pages() >= 4 * MIB); /* they are not purged all at once */
    }
}

static void reuses_what_it_keeps(void **state)
{
    (void)state;
    fill(6 * MIB);
    const long warm = faults();
    for (int i = 0; i < 10; i++)
        fill(6 * MIB);
    assert_true(faults() - warm < 64);
}

/* Called in a child. Returns 0 if it keeps at most this much of its parent's memory. */
static int keeps_at_most(size_t most)
{
    const size_t kept = retained().max_bytes;
    char *const block = malloc(20 * MIB);
    memset(block, 1, 20 * MIB);
    free(block);
    return kept <= most && retained().max_bytes <= 4 * MIB ? 0 : 1;
}

static int status_of_child(size_t most)
{
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(25);
        _exit(keeps_at_most(most));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void a_child_keeps_nothing_of_its_parent(void **state)
{
    (void)state;
    fill_small(2 * MIB);
    fill(6 * MIB);
    const uint64_t before = retained().max_bytes;
    assert_true(before >= 6 * MIB);
    assert_int_equal(status_of_child(3 * MIB), 0);
    assert_int_equal(retained().max_bytes, before); /* the parent's memory is untouched */
}

/*
 * A signal handler may interrupt malloc while malloc holds a lock of jemalloc, and fork. A purge in
 * the child would wait for that lock without end.
 */
static void a_child_of_a_handler_within_malloc_takes_no_lock(void **state)
{
    (void)state;
    fill(6 * MIB);
    static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    gf_heap_mutex_lock(&held); /* as malloc does */
    const int status = status_of_child(3 * MIB);
    gf_heap_mutex_unlock(&held);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

/* If huge pages are allocated slowly, or not at all, they are not requested again. */
static size_t peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss;
}

/* Returns 0 if the trial of a large mapping populates nothing, 1 if it does, and 2 if unknown. */
static int populates_trial(void)
{
    const size_t before = peak_kib();
    if (mlockall(MCL_FUTURE) != 0 || !gf_mappings_fit(256 * MIB))
        return 2;
    return peak_kib() < before + 128 * 1024 ? 0 : 1;
}

static void a_trial_populates_nothing_under_mlockall(void **state)
{
    int status = -1;
    (void)state;
    gf_heap_ops()->purge(); /* the child's peak begins with the memory that it inherits */
    const pid_t pid = fork();
    if (pid == 0)
        _exit(populates_trial());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2)
        skip_because("RLIMIT_MEMLOCK is below 256 MiB");
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(gf_mappings_fit(256 * MIB));
    assert_false(gf_mappings_fit((size_t)1 << 45));
}

static void slow_huge_pages_end_the_advice(void **state)
{
    (void)state;
    const uint64_t quick = 200000, slow = 5000000;
    struct gf_huge_trial guard = {0};
    /* Of 16 requests, two are slow and eight get no huge page. */
    for (int i = 0; i < 1000; i++)
        assert_false(gf_huge_judge(&guard, i % 8 ? quick : slow, i % 2));
    guard = (struct gf_huge_trial){0};
    assert_false(gf_huge_judge(&guard, slow, true));
    assert_false(gf_huge_judge(&guard, slow, true));
    assert_true(gf_huge_judge(&guard, slow, true));
    guard = (struct gf_huge_trial){0};
    for (int i = 0; i < 8; i++)
        assert_false(gf_huge_judge(&guard, quick, false));
    assert_true(gf_huge_judge(&guard, quick, false));
}

static void *use_big_blocks_until_told(void *stop)
{
    while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
        char *block = malloc(5 * MIB);
        block = realloc(block, 9 * MIB);
        block[8 * MIB] = 1;
        free(block);
        fill_small(2 * MIB);
    }
    return NULL;
}

/* A child is forked while another thread uses the store and purges. The child can do the same. */
static void a_child_forked_while_purging_goes_on(void **state)
{
    (void)state;
    bool stop = false;
    pthread_t thread;
    int good = 0;
    assert_int_equal(pthread_create(&thread, NULL, use_big_blocks_until_told, &stop), 0);
    for (int i = 0; i < 50; i++) {
        int status = -1;
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(25);
            _exit(keeps_at_most(SIZE_MAX));
        }
        waitpid(pid, &status, 0);
        good += status == 0;
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    assert_int_equal(good, 50);
}

/* With a limit of the address space, the heap keeps nothing. */
static void keeps_nothing_under_a_limit_of_the_address_space(void **state)
{
    (void)state;
    fill(6 * MIB);
    gf_reclaim_limit(RLIMIT_AS, 8192 * MIB);
    assert_true(retained().max_bytes < MIB / 4);
    fill(64 * MIB);
    fill_small(16 * MIB);
    assert_int_equal(retained().max_bytes, 0);
    assert_false(je_opt_retain);
    gf_reclaim_limit(RLIMIT_AS, RLIM_INFINITY);
    assert_false(je_opt_retain); /* jemalloc cannot go back */
    fill(64 * MIB);
    assert_true(retained().max_bytes >= 4 * MIB);
}

static unsigned wakes;

static void count_wake(void)
{
    wakes++;
}

/* The engine sleeps while the heap keeps little. When it keeps 32 MiB, the engine is woken once. */
static void wakes_the_engine_once(void **state)
{
    (void)state;
    const struct gf_heap_ops *ops = gf_heap_ops();
    ops->purge();
    ops->watch_retained(count_wake, UINT64_MAX);
    fill(8 * MIB);
    ops->watch_retained(count_wake, UINT64_MAX);
    fill(14 * MIB);
    assert_int_equal(wakes, 0);
    for (int i = 0; i < 4; i++)
        fill(64 * MIB);
    assert_int_equal(wakes, 1);
    ops->watch_retained(count_wake, UINT64_MAX);
    fill(48 * MIB);
    assert_int_equal(wakes, 2);
}

/* An engine earns memory that comes back. It ends with the last two windows. */
static void an_engine_earns(void **state)
{
    (void)state;
    assert_int_equal(retained().start, 60 * MIB);
    for (int i = 0; i < 3; i++)
        fill(200 * MIB);
    assert_true(retained().limit >= 200 * MIB && retained().max_bytes >= 200 * MIB);
    const long warm = faults();
    fill(200 * MIB);
    assert_true(faults() - warm < 64);
    for (int i = 0; i < 3; i++)
        fill_small(160 * MIB);
    assert_true(free_pages() >= 160 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_jemalloc_counts),
        cmocka_unit_test(keeps_the_start_budget),
        cmocka_unit_test(reuses_what_it_keeps),
        cmocka_unit_test(a_child_keeps_nothing_of_its_parent),
        cmocka_unit_test(a_child_of_a_handler_within_malloc_takes_no_lock),
        cmocka_unit_test(a_trial_populates_nothing_under_mlockall),
        cmocka_unit_test(slow_huge_pages_end_the_advice),
        cmocka_unit_test(a_child_forked_while_purging_goes_on),
        cmocka_unit_test(keeps_nothing_under_a_limit_of_the_address_space),
        cmocka_unit_test(wakes_the_engine_once), /* marks this process as one with an engine */
        cmocka_unit_test(an_engine_earns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
