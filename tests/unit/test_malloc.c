/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the heap of this process, which links the exported malloc family and is in mode replace. */
#include "unit.h"

#include "config/startup_env.h"
#include "preload/malloc/exports.h"
#include "preload/heap/arenas.h"
#include "preload/heap/heap.h"
#include "preload/heap/jemalloc.h"
#include "preload/heap/jemalloc_sys.h"
#include "preload/heap/mappings.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static void jemalloc_serves(void **state)
{
    (void)state;
    const struct gf_heap_ops *ops = gf_heap_ops();
    assert_int_equal(ops->mode, gf_heap_mode_replace);
    assert_string_equal(ops->mode_reason, "no other allocator is preloaded");
    void *block = malloc(100);
    assert_int_equal(malloc_usable_size(block), 112);
    free(block);
}

static size_t setting(const char *name)
{
    size_t value = 0, size = sizeof(value);
    assert_int_equal(je_mallctl(name, &value, &size, NULL, 0), 0);
    return value;
}

static void settings_are_in(void **state)
{
    (void)state;
    assert_true(setting("arenas.page") >= getauxval(AT_PAGESZ));
    assert_int_equal(setting("opt.oversize_threshold"), 0);
    assert_true(setting("arena.0.oversize_threshold") > (size_t)1 << 40);
    unsigned arenas;
    size_t size = sizeof(arenas);
    assert_int_equal(je_mallctl("opt.narenas", &arenas, &size, NULL, 0), 0);
    assert_int_equal(arenas, gf_set_count(&gf_startup_env()->cpus));
    bool background = true;
    size = sizeof(background);
    assert_int_equal(je_mallctl("opt.background_thread", &background, &size, NULL, 0), 0);
    assert_false(background);
}

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/*
 * Runs on the main thread, which uses arena 0. There unmodified jemalloc would purge each block at
 * once, and populate it in each round.
 */
static void a_large_buffer_faults_in_once(void **state)
{
    (void)state;
    gf_heap_ops()->watch_retained(NULL, UINT64_MAX); /* as with an engine */
    unsigned populated = 0;

    for (int round = 0; round < 20; round++) {
        const long before = faults();
        char *buffer = malloc(64 * MIB);
        memset(buffer, round, 64 * MIB);
        __asm__ volatile("" ::"r"(buffer) : "memory");
        free(buffer);
        populated += faults() - before >= 32; /* with huge pages, one for each 2 MiB */
    }
    /* After a slow huge page, small ones replace the block's pages once. */
    assert_in_range(populated, 1, 4);
}

static bool in_ranges(const void *address)
{
    static struct gf_range ranges[256];
    const size_t count = gf_heap_ops()->ranges(ranges, GF_ARRAY_LEN(ranges));
    assert_true(count > 0 && count <= GF_ARRAY_LEN(ranges));
    for (size_t i = 0; i < count; i++)
        if ((uintptr_t)address - ranges[i].start < ranges[i].size)
            return true;
    return false;
}

static void ranges_hold_every_block(void **state)
{
    (void)state;
    int local;
    assert_false(in_ranges(&local));
    for (size_t size = 1; size < 64 * MIB; size *= 3) {
        char *block = malloc(size);
        assert_true(in_ranges(block));
        assert_true(in_ranges(block + size - 1));
        free(block);
    }
}

#define PIECE (4 * MIB)
#define MAPPERS 8

struct mapper {
    pthread_t thread;
    unsigned seed;
    char *kept; /* the last quarter of the latest mapping */
};

/* Unmaps whole mappings, first halves and middles, while other threads map in the gaps. */
static void *map_and_unmap(void *closure)
{
    struct mapper *self = closure;
    for (int i = 0; i < 2000; i++) {
        char *start = gf_heap_mmap(NULL, PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (start == MAP_FAILED)
            abort();
        self->seed = self->seed * 1664525 + 1013904223;
        if (self->seed >> 31)
            gf_heap_munmap(start, PIECE / 2);
        else
            gf_heap_munmap(start + PIECE / 4, PIECE / 2);
        if (self->kept)
            gf_heap_munmap(self->kept, PIECE / 4);
        gf_heap_munmap(start + PIECE / 2, PIECE / 4);
        if (!(self->seed >> 31))
            gf_heap_munmap(start, PIECE / 4);
        self->kept = start + 3 * (PIECE / 4);
    }
    return NULL;
}

static size_t bytes_in_ranges(void)
{
    static struct gf_range ranges[2048];
    const size_t count = gf_mappings_ranges(ranges, GF_ARRAY_LEN(ranges));
    size_t bytes = 0;
    assert_true(count <= GF_ARRAY_LEN(ranges));
    for (size_t i = 0; i < count; i++)
        bytes += ranges[i].size;
    return bytes;
}

static void ranges_hold_under_threads(void **state)
{
    (void)state;
    static struct mapper mappers[MAPPERS];
    const size_t before = bytes_in_ranges();
    for (unsigned i = 0; i < MAPPERS; i++) {
        mappers[i].seed = i;
        assert_int_equal(pthread_create(&mappers[i].thread, NULL, map_and_unmap, &mappers[i]), 0);
    }
    for (unsigned i = 0; i < MAPPERS; i++)
        pthread_join(mappers[i].thread, NULL);
    assert_int_equal(bytes_in_ranges() - before, MAPPERS * (PIECE / 4));
    for (unsigned i = 0; i < MAPPERS; i++) {
        assert_true(in_ranges(mappers[i].kept) && in_ranges(mappers[i].kept + PIECE / 4 - 1));
        gf_heap_munmap(mappers[i].kept, PIECE / 4);
    }
    assert_int_equal(bytes_in_ranges(), before);
}

static void *map_until_told(void *stop)
{
    while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
        void *start = gf_heap_mmap(NULL, PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        gf_heap_munmap(start, PIECE);
    }
    return NULL;
}

static void a_forked_child_can_map(void **state)
{
    (void)state;
    pthread_t threads[2];
    bool stop = false;
    int good = 0;
    if (getenv("GF_UNDER_QEMU")) {
        print_message("# not run: qemu forks under its own lock of all mappings\n");
        return;
    }
    for (size_t i = 0; i < GF_ARRAY_LEN(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, map_until_told, &stop), 0);
    for (int i = 0; i < 200; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(25); /* if the child inherited a locked lock, it would wait for ever */
            void *start = gf_heap_mmap(NULL, PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            _exit(start == MAP_FAILED || gf_heap_munmap(start, PIECE));
        }
        int status = -1;
        waitpid(pid, &status, 0);
        good += status == 0;
        if (status)
            break;
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < GF_ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(good, 200);
}

static int policy_of(const void *address)
{
    int policy = -1;
    uint64_t nodes[GF_NODES_MAX / 64];
    if (syscall(SYS_get_mempolicy, &policy, nodes, (unsigned long)GF_NODES_MAX, address,
                2 /* MPOL_F_ADDR */) != 0)
        return -1;
    return policy;
}

static bool has_threads(void)
{
    bool has = false;
    size_t size = sizeof(has);
    return je_mallctl("background_thread", &has, &size, NULL, 0) == 0 && has;
}

/* A child must purge by itself, because it has no background threads. */
static void a_forked_child_knows_that_it_has_no_background_threads(void **state)
{
    bool on = true;
    int status = 1;

    (void)state;
    assert_int_equal(je_mallctl("background_thread", NULL, NULL, &on, sizeof(on)), 0);
    free(malloc(MIB));
    const bool had = has_threads();
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        free(malloc(MIB));
        _exit(has_threads());
    }
    const bool ended = waitpid(child, &status, 0) == child;
    on = false;
    assert_int_equal(je_mallctl("background_thread", NULL, NULL, &on, sizeof(on)), 0);
    assert_true(had && ended);
    assert_int_equal(status, 0);
}

static void new_mappings_get_the_node(void **state)
{
    (void)state;
    const struct gf_heap_ops *ops = gf_heap_ops();
    struct gf_nodes node = {{1}};
    int local;
    if (policy_of(&local) < 0) {
        print_message("# not run: no get_mempolicy here: %s\n", strerror(errno));
        return; /* cmocka's TAP calls a skip a failure */
    }
    char *before = malloc(16);
    ops->set_node(1 /* MPOL_PREFERRED */, &node);
    char *block = malloc(512 * MIB); /* larger than any retained extent: a new mapping */
    const int error = errno = 77;
    block[0] = 1;
    assert_int_equal(policy_of(block), 1);
    assert_int_equal(policy_of(before), 0);
    free(block);
    assert_int_equal(errno, error);
    assert_int_equal(ops->refused(), 0);

    struct gf_nodes absent = {{0}};
    gf_set_add(&absent, GF_NODES_MAX - 1);
    ops->set_node(2 /* MPOL_BIND */, &absent);
    errno = 77;
    block = malloc(2048 * MIB);
    assert_non_null(block);
    assert_int_equal(errno, 77);
    assert_true(ops->refused() > 0);
    free(block);
    ops->set_node(0, NULL);
}

static void *own_arena(void *ret)
{
    size_t size = sizeof(unsigned);
    gf_arenas_thread_started();
    free(malloc(10));
    assert_int_equal(je_mallctl("thread.arena", ret, &size, NULL, 0), 0);
    return NULL;
}

static void new_threads_share_fewer_arenas(void **state)
{
    (void)state;
    const struct gf_heap_ops *ops = gf_heap_ops();
    struct gf_heap_stats stats;
    ops->stats(&stats);
    assert_true(stats.allocated > 0 && stats.active >= stats.allocated &&
                stats.mapped >= stats.active);
    if (stats.arenas < 2) {
        print_message("# not run: one CPU, one arena\n");
        return;
    }
    ops->set_cpus(1);
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        unsigned arena = 99;
        assert_int_equal(pthread_create(&thread, NULL, own_arena, &arena), 0);
        pthread_join(thread, NULL);
        assert_int_equal(arena, 0);
    }
    ops->set_cpus(stats.arenas);
}

static void trim_purges(void **state)
{
    (void)state;
    char *block = malloc(64 * MIB);
    memset(block, 1, 64 * MIB);
    __asm__ volatile("" ::"r"(block) : "memory"); /* the compiler would remove all three calls */
    free(block);
    const struct mallinfo2 before = mallinfo2();
    assert_int_equal(malloc_trim(0), 1);
    const struct mallinfo2 after = mallinfo2();
    assert_true(before.arena - after.arena >= 60 * MIB);
    assert_int_equal(after.arena, after.uordblks + after.fordblks);
    assert_int_equal(malloc_trim(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jemalloc_serves),
        cmocka_unit_test(settings_are_in),
        cmocka_unit_test(a_large_buffer_faults_in_once),
        cmocka_unit_test(ranges_hold_every_block),
        cmocka_unit_test(ranges_hold_under_threads),
        cmocka_unit_test(a_forked_child_can_map),
        cmocka_unit_test(a_forked_child_knows_that_it_has_no_background_threads),
        cmocka_unit_test(new_mappings_get_the_node),
        cmocka_unit_test(new_threads_share_fewer_arenas),
        cmocka_unit_test(trim_purges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
