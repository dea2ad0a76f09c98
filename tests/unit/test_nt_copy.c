/* SPDX-License-Identifier: Apache-2.0 */
/* Tests all implementations that this machine can run; the library uses one of them. */
#include "unit.h"

#include "engine/transfer/host_copy.h"

#include "base/atomic.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 4096
#define LINE 64

static unsigned char from[BYTES + 64], into[BYTES + 128] __attribute__((aligned(64)));

/* Copies into the middle of a filled page, from a source at any offset. */
static void assert_copies(void (*copy)(char *, const char *, size_t), size_t bytes, size_t offset)
{
    memset(into, 0xee, sizeof(into));
    copy((char *)into + 64, (const char *)from + offset, bytes);
    assert_memory_equal(into + 64, from + offset, bytes);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(into[i], 0xee);
    for (size_t i = 64 + bytes; i < sizeof(into); i++)
        assert_int_equal(into[i], 0xee);
}

static void assert_all(void (*copy)(char *, const char *, size_t), size_t step)
{
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t bytes = 0; bytes <= 512; bytes += step)
        for (size_t offset = 0; offset < 64; offset += 3)
            assert_copies(copy, bytes, offset);
    assert_copies(copy, BYTES, 13);
}

static void every_length(void **state)
{
    (void)state;
    assert_all(gf_nt_copy, 1);
    assert_all(gf_cldemote_copy, 1);
}

/*
 * A processor without CLDEMOTE executes the instruction as a no-op. So the test runs that copy
 * function on each processor that has the vector registers.
 */
static void whole_lines_every_way(void **state)
{
    size_t count;
    const struct gf_nt_copy_way *ways = gf_nt_copy_ways(&count);
    (void)state;
    for (size_t i = 0; i < count; i++)
        if (ways[i].can_run())
            assert_all(ways[i].copy_lines, LINE);
#if defined(__x86_64__)
    assert_int_equal(count, 4);
    assert_true(ways[count - 1].can_run());
#endif
}

#define GUARDED ((size_t)1 << 20)

static unsigned char *guarded;
static _Atomic bool stops;

static void *write_guarded(void *sources)
{
    for (unsigned i = 0; !gf_load_relaxed(&stops); i++)
        gf_program_write((char *)guarded, (char *)sources + i % 2 * GUARDED, GUARDED);
    return NULL;
}

/* A number that depends on a byte of each page. */
static unsigned sample(void)
{
    unsigned ret = 0;

    for (size_t i = 0; i < GUARDED; i += 4096)
        ret = ret * 31 + ((volatile unsigned char *)guarded)[i];
    return ret;
}

/* A program takes a snapshot: it protects memory, and its handler of faults waits until that is permitted again. */
static void nothing_is_written_after_a_page_was_protected(void **state)
{
    const int all = PROT_READ | PROT_WRITE;
    unsigned changed = 0;
    pthread_t writer;

    (void)state;
    if (!gf_program_copy_is_possible())
        skip_because("this machine refuses process_vm_readv");
    guarded = mmap(NULL, 3 * GUARDED, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(guarded, MAP_FAILED);
    memset(guarded + GUARDED, 1, GUARDED);
    memset(guarded + 2 * GUARDED, 2, GUARDED);
    assert_int_equal(pthread_create(&writer, NULL, write_guarded, guarded + GUARDED), 0);
    for (unsigned i = 0; i < 2000; i++) {
        usleep(i % 50 * 10);
        assert_int_equal(mprotect(guarded, GUARDED, PROT_READ), 0);
        const unsigned before = sample();
        usleep(100);
        changed += sample() != before;
        assert_int_equal(mprotect(guarded, GUARDED, all), 0);
    }
    gf_store_relaxed(&stops, true);
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_int_equal(changed, 0);
    munmap(guarded, 3 * GUARDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length),
        cmocka_unit_test(whole_lines_every_way),
        cmocka_unit_test(nothing_is_written_after_a_page_was_protected),
    };
    return cmocka_run_group_tests_name("nt_copy", tests, NULL, NULL);
}
