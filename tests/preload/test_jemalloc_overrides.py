# SPDX-License-Identifier: Apache-2.0
"""The effects of src/preload/heap/jemalloc_replaced.c that a program can see: addresses, page faults, memory."""

PRELUDE = r"""
    #include <pthread.h>
    #include <stdint.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/resource.h>
    static struct rusage usage(void) { struct rusage u; getrusage(RUSAGE_SELF, &u); return u; }
    static uint32_t seed = 1;
    static uint32_t number(void) { seed = seed * 1664525 + 1013904223; return seed >> 8; }
    static void on_thread(void *(*run)(void *)) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, NULL)) exit(1);
        pthread_join(thread, NULL);
    }
"""


def numbers(run, compile_c, text, name, **env):
    program = compile_c(PRELUDE + text, "-O1", "-fno-builtin", "-lpthread", name=name)
    found = run(program, GPUFEED_PROFILE="inference", **env)
    assert found.returncode == 0 and not found.stderr, found
    return [int(word) for word in found.stdout.split()]


def test_a_thread_that_only_frees_gets_a_cache(run, compile_c):
    """The next block is the one that was freed last. jemalloc itself gives such a thread no cache.
    """
    last, first = numbers(run, compile_c, r"""
        static void *blocks[1000];
        static void *take(void *none) {
            for (int i = 0; i < 1000; i++) free(blocks[i]);
            printf("%ju %ju\n", (uintmax_t)blocks[999], (uintmax_t)malloc(64));
            return none;
        }
        int main(void) {
            for (int i = 0; i < 1000; i++) blocks[i] = malloc(64);
            on_thread(take);
            return 0;
        }""", "frees")
    assert first == last


THREADS = r"""
    static void *live(void *none) {
        static void *blocks[10000];
        for (int i = 0; i < 10000; i++)
            memset(blocks[i] = malloc(16 + (size_t)i * 7919 % 2048), 1, 16);
        for (int i = 0; i < 10000; i++)
            free(blocks[i]);
        return none;
    }
    int main(void) {
        for (int i = 0; i < 30; i++) on_thread(live);
        printf("%ld %ld\n", usage().ru_maxrss >> 10, usage().ru_minflt);
        return 0;
    }"""


def test_successive_threads_use_the_same_pages(run, compile_c):
    """Each thread uses 10 MiB, of which the heap keeps the start budget of 7. Without reuse, the threads would take
    75 000 faults. With one set of pages for each thread, the resident memory would grow."""
    resident, faults = numbers(run, compile_c, THREADS, "threads")
    assert resident < 50 and faults < 55000, (resident, faults)


def test_a_thread_starts_without_faults(run, compile_c):
    """The cached block is cleared, not purged and faulted in again."""
    faults, = numbers(run, compile_c, r"""
        static void *once(void *none) { free(malloc(16)); return none; }
        int main(void) {
            for (int i = 0; i < 50; i++) on_thread(once);
            const long before = usage().ru_minflt;
            for (int i = 0; i < 200; i++) on_thread(once);
            printf("%ld\n", (usage().ru_minflt - before) / 200);
            return 0;
        }""", "born")
    assert faults <= 1, faults


def test_a_batch_finds_its_place_again(run, compile_c):
    """Small blocks that are allocated between two batches do not occupy the batch's extent."""
    resident, = numbers(run, compile_c, r"""
        static void *ring[4000];
        static void some(void) {
            for (int i = 0; i < 300; i++) {
                void **at = &ring[number() % 4000];
                free(*at);
                *at = malloc(32 + number() % 4096);
            }
        }
        int main(void) {
            for (int i = 0; i < 60; i++) {
                char *batch = malloc(64 << 20);
                memset(batch, 1, 64 << 20);
                some();
                free(batch);
                some();
            }
            printf("%ld\n", usage().ru_maxrss >> 10);
            return 0;
        }""", "batches", MALLOC_CONF="dirty_decay_ms:-1")  # so that the result does not depend on time
    assert resident < 100, resident


def test_cleared_blocks_are_clear(run, compile_c):
    """Sizes on both sides of the limit up to which used pages are cleared."""
    wrong, = numbers(run, compile_c, r"""
        int main(void) {
            long wrong = 0;
            for (size_t size = 4096; size <= 16 << 20; size = size * 5 / 4) {
                char *used = malloc(size);
                memset(used, 1, size);
                free(used);
                char *clear = calloc(1, size);
                for (size_t i = 0; i < size; i++) wrong += clear[i] != 0;
                memset(clear, 1, size);
                free(clear);
            }
            printf("%ld\n", wrong);
            return 0;
        }""", "clear", MALLOC_CONF="tcache_max:32768")
    assert wrong == 0
