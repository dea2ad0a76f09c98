/* SPDX-License-Identifier: Apache-2.0 */
/* Tests all implementations that this machine can run; the library uses one of them. */
#include "unit.h"

#include "engine/transfer/host_copy.h"

#include <string.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length),
        cmocka_unit_test(whole_lines_every_way),
    };
    return cmocka_run_group_tests_name("nt_copy", tests, NULL, NULL);
}
