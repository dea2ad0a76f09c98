/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests freed pages of this process, which links the exported malloc family and is in mode replace.
 */
#include "unit.h"

#include "base/clock.h"
#include "preload/heap/heap.h"
#include "preload/heap/callouts/fork_gate.h"
#include "preload/heap/pages/huge.h"
#include "preload/heap/jemalloc/jemalloc.h"
#include "preload/heap/pages/purge_unused.h"
#include "preload/heap/pages/retain.h"
#include "preload/heap/pages/unused.h"
#include "preload/heap/pages/mappings.h"
#include "os/headroom.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static void dirty_limit_is_a_share_of_the_headroom(void **state)
{
    (void)state;
    assert_int_equal(gf_retain_bound(16 * GIB, gf_profile_training, true), 4 * GIB);
    assert_int_equal(gf_retain_bound(16 * GIB, gf_profile_inference, true), GIB);
    /* Without an engine, no thread frees the pages of an idle process. */
    assert_int_equal(gf_retain_bound(16 * GIB, gf_profile_training, false), GIB / 2);
    assert_int_equal(gf_retain_bound(GIB, gf_profile_training, false), 128 * MIB);
    assert_int_equal(gf_retain_bound(0, gf_profile_training, true), 4 * MIB);
    assert_int_equal(gf_retain_bound(GF_HEADROOM_UNKNOWN, gf_profile_training, true), 256 * MIB);
}

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

/*
 * Freed pages stay dirty until the next tick of jemalloc's clock, at most 50 ms. On a busy machine,
 * that tick may come before the next line, so this tries again.
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

static void counts_what_jemalloc_counts(void **state)
{
    (void)state;
    char *block = malloc(40 * MIB);
    block = realloc(block, 30 * MIB); /* in place */
    block = realloc(block, 36 * MIB);
    assert_true(retained().managed);
    assert_int_equal(retained().max_bytes, pages("pdirty") + pages("pmuzzy"));
    free(block);
    fill(3 * MIB);
    gf_heap_ops()->free_lazily();
    fill(5 * MIB);
    assert_int_equal(retained().max_bytes, pages("pdirty") + pages("pmuzzy"));
    gf_heap_ops()->purge();
    assert_int_equal(retained().max_bytes, pages("pdirty") + pages("pmuzzy"));
    assert_true(retained().max_bytes < MIB);
}

/* In both windows the program reuses 16 of 96 MiB. These 16 MiB stay, and the rest is purged. */
static void gives_back_what_is_not_reused(void **state)
{
    (void)state;
    const struct gf_heap_ops *ops = gf_heap_ops();
    fill_dirty(96 * MIB);
    ops->free_lazily();
    gf_unused_rotate();
    fill(16 * MIB);
    gf_unused_rotate();
    fill(16 * MIB);
    const struct gf_heap_retained before = retained();
    assert_in_range(before.unused_bytes, 76 * MIB, before.max_bytes - 16 * MIB);
    for (int i = 0; i < 200 && retained().unused_bytes > 4 * MIB; i++, usleep(100000))
        ops->purge_unused(); /* a purge is due each second */
    const struct gf_heap_retained after = retained();
    const uint64_t unused_purged = after.unused_purged - before.unused_purged;
    assert_in_range(unused_purged, before.unused_bytes - 4 * MIB, before.unused_bytes);
    assert_int_equal(before.max_bytes - after.max_bytes, unused_purged);
    assert_int_equal(after.purged_bytes - before.purged_bytes, unused_purged);
    assert_int_equal(after.max_bytes, pages("pdirty") + pages("pmuzzy"));
    assert_true(after.unused_bytes < 4 * MIB);
    const long warm = faults();
    fill(16 * MIB);
    assert_true(faults() - warm < 64);
}

static void gives_back_in_parts(void **state)
{
    (void)state;
    const uint64_t second = 1000000000;
    assert_int_equal(gf_purge_unused_part(0), 16 * MIB);
    assert_int_equal(gf_purge_unused_part(second / 20), 16 * MIB);
    assert_int_equal(gf_purge_unused_part(second / 5), 64 * MIB);
    assert_int_equal(gf_purge_unused_part(60 * second), 128 * MIB);
}

/*
 * A thread that allocated fast has few events. After it has freed pages, its next event comes soon,
 * also if all of this happened within one tick of the clock.
 */
static void an_event_follows_freed_pages(void **state)
{
    static uint64_t now, next, next_fast = 1; /* static, because later events may write them */
    const struct gf_purge_unused_count count = {
        .allocates = true, .now = &now, .next = &next, .next_fast = &next_fast};
    uint64_t tick;

    (void)state;
    do {
        tick = gf_coarse_ns();
        for (unsigned i = 0; i < 16; i++) {
            next = UINT64_MAX;
            gf_purge_unused_event(&count);
        }
    } while (gf_coarse_ns() != tick || next - now < 4 * MIB);
    gf_purge_unused_soon();
    assert_true(next - now <= 256 << 10);
    assert_int_equal(next_fast, next);
}

/* Lazily freed pages stay present, so that reuse costs no fault; purged pages do not. */
static void frees_lazily_and_purges(void **state)
{
    (void)state;
    const struct gf_heap_ops *ops = gf_heap_ops();
    fill_dirty(64 * MIB);
    assert_true(retained().freed >= 64 * MIB);
    const struct gf_heap_retained before = retained();
    assert_true(ops->free_lazily());
    assert_true(pages("pdirty") < MIB && pages("pmuzzy") >= 64 * MIB);
    assert_true(retained().lazily_freed_bytes - before.lazily_freed_bytes >= 64 * MIB);
    assert_int_equal(retained().purged_bytes, before.purged_bytes);
    assert_int_equal(retained().lazy_frees - before.lazy_frees, 1);
    assert_int_equal(retained().freed, 0);
    const long warm = faults();
    fill(64 * MIB);
    assert_true(faults() - warm < 64);

    fill_dirty(64 * MIB); /* the decay time is restored */
    assert_true(ops->purge());
    assert_true(pages("pdirty") < MIB && pages("pmuzzy") < MIB);
    assert_true(retained().purged_bytes - before.purged_bytes >= 64 * MIB);
    const long cold = faults();
    fill(64 * MIB);
    assert_true(faults() - cold >= 32); /* fewer faults with huge pages */
}

/* A count of freed bytes triggers a check, which lazily frees dirty pages beyond the limit. */
static void checks_and_frees_lazily_by_itself(void **state)
{
    (void)state;
    char *blocks[40];
    struct gf_heap_retained before = retained();
    /* The headroom is read again only some time after the last reading. */
    for (int i = 0; i < 20 || (i < 1000 && retained().readings == before.readings); i++)
        fill(64 * MIB);
    assert_true(retained().readings > before.readings);
    const uint64_t bound = retained().dirty_limit;
    assert_int_equal(bound, gf_retain_bound(retained().headroom, gf_profile_training, false));
    if (bound > GF_ARRAY_LEN(blocks) * 16 * MIB)
        skip_because("filling up to the dirty limit takes too long here");
    /* Only parts of the blocks are touched, because the machine may not have so much memory. */
    before = retained();
    for (size_t i = 0; i < GF_ARRAY_LEN(blocks); i++)
        memset(blocks[i] = malloc(16 * MIB), 1, MIB);
    for (size_t i = 0; i < GF_ARRAY_LEN(blocks); i++)
        free(blocks[i]);
    assert_true(retained().lazy_frees > before.lazy_frees);
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

static void the_kernel_may_reclaim_it(void **state)
{
    (void)state;
    fill(64 * MIB);
    gf_heap_ops()->free_lazily();
    if (access("/proc/self/smaps_rollup", R_OK) != 0)
        skip_because("no smaps_rollup here");
    assert_true(lazily_freed() >= 60 * MIB);
}

/* Called in a child. Returns 0 if it retains at most this much of its parent's pages. */
static int retains_at_most(size_t most)
{
    const size_t retained_here = pages("pdirty") + pages("pmuzzy");
    free(malloc(100));
    return retained_here <= most ? 0 : 1;
}

static int status_of_child(size_t most)
{
    int status = -1;
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(25);
        _exit(retains_at_most(most));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void a_child_retains_no_page_of_its_parent(void **state)
{
    (void)state;
    fill_dirty(64 * MIB);
    const size_t before = pages("pdirty") + pages("pmuzzy");
    assert_int_equal(status_of_child(MIB), 0);
    assert_int_equal(pages("pdirty") + pages("pmuzzy"),
                     before); /* the parent's pages are untouched */
    gf_heap_ops()->free_lazily();
    assert_int_equal(status_of_child(MIB), 0);
}

/*
 * A signal handler may interrupt malloc while malloc holds a lock of jemalloc, and fork. A purge in
 * the child would wait for that lock without end.
 */
static void a_child_of_a_handler_within_malloc_takes_no_lock(void **state)
{
    (void)state;
    fill_dirty(64 * MIB);
    gf_fork_gate_enter(); /* as malloc does */
    const int status = status_of_child(MIB);
    gf_fork_gate_leave();
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
    struct gf_huge_guard guard = {0};
    /* Of 16 requests, two are slow and eight get no huge page. */
    for (int i = 0; i < 1000; i++)
        assert_false(gf_huge_judge(&guard, i % 8 ? quick : slow, i % 2));
    guard = (struct gf_huge_guard){0};
    assert_false(gf_huge_judge(&guard, slow, true));
    assert_false(gf_huge_judge(&guard, slow, true));
    assert_true(gf_huge_judge(&guard, slow, true));
    guard = (struct gf_huge_guard){0};
    for (int i = 0; i < 8; i++)
        assert_false(gf_huge_judge(&guard, quick, false));
    assert_true(gf_huge_judge(&guard, quick, false));
}

static void *free_lazily_until_told(void *stop)
{
    while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
        fill(4 * MIB);
        gf_heap_ops()->free_lazily();
    }
    return NULL;
}

/*
 * A child is forked while another thread frees lazily. In the child, each arena has its decay time,
 * and the child can free lazily.
 */
static void a_child_forked_while_freeing_lazily_goes_on(void **state)
{
    (void)state;
    bool stop = false;
    pthread_t thread;
    int good = 0;
    char *block = malloc(32 * MIB); /* so that the children have pages to purge */
    memset(block, 1, 32 * MIB);
    free(block);
    assert_int_equal(pthread_create(&thread, NULL, free_lazily_until_told, &stop), 0);
    for (int i = 0; i < 30; i++) {
        int status = -1;
        const pid_t pid = fork();
        if (pid == 0) {
            ssize_t decay = 0;
            size_t size = sizeof(decay);
            alarm(25);
            je_mallctl("arena.0.dirty_decay_ms", &decay, &size, NULL, 0);
            _exit(decay != je_opt_dirty_decay_ms || !gf_heap_ops()->free_lazily());
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

/* The engine sleeps while little is dirty. When much is dirty, it is woken once. */
static void wakes_the_engine_once(void **state)
{
    (void)state;
    const struct gf_heap_ops *ops = gf_heap_ops();
    assert_true(ops->free_lazily());
    ops->watch_retained(count_wake);
    fill(8 * MIB);
    ops->watch_retained(count_wake);
    fill(8 * MIB);
    assert_int_equal(wakes, 0);
    for (int i = 0; i < 4; i++)
        fill(64 * MIB);
    assert_int_equal(wakes, 1);
    assert_true(ops->free_lazily());
    fill(64 * MIB);
    assert_int_equal(wakes, 1);
    assert_true(ops->free_lazily());
    ops->watch_retained(count_wake);
    fill(8 * MIB);
    assert_int_equal(wakes, 1);
    for (int i = 0; i < 2; i++)
        fill(40 * MIB); /* far below the limit, because that would also trigger a check */
    assert_int_equal(wakes, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dirty_limit_is_a_share_of_the_headroom),
        cmocka_unit_test(counts_what_jemalloc_counts),
        cmocka_unit_test(gives_back_what_is_not_reused),
        cmocka_unit_test(gives_back_in_parts),
        cmocka_unit_test(an_event_follows_freed_pages),
        cmocka_unit_test(frees_lazily_and_purges),
        cmocka_unit_test(checks_and_frees_lazily_by_itself),
        cmocka_unit_test(the_kernel_may_reclaim_it),
        cmocka_unit_test(a_child_retains_no_page_of_its_parent),
        cmocka_unit_test(a_child_of_a_handler_within_malloc_takes_no_lock),
        cmocka_unit_test(a_trial_populates_nothing_under_mlockall),
        cmocka_unit_test(slow_huge_pages_end_the_advice),
        cmocka_unit_test(a_child_forked_while_freeing_lazily_goes_on),
        cmocka_unit_test(
            wakes_the_engine_once), /* last, because it marks this process as watched */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
