/* SPDX-License-Identifier: Apache-2.0 */
/* All of the file's ways, of which a machine uses one. */
#include "unit.h"

#include "../../src/transfer/streamed.c"

#define BYTES 4096

static unsigned char from[BYTES + 64], into[BYTES + 128] __attribute__((aligned(64)));

/* To the middle of a page that is filled otherwise; the source begins anywhere. */
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
    assert_all(gf_stream_copy, 1);
    assert_all(gf_demote_copy, 1);
}

static void whole_lines_every_way(void **state)
{
    (void)state;
#if defined(__x86_64__)
    __builtin_cpu_init();
    assert_all(by_16, LINE);
    if (__builtin_cpu_supports("avx2"))
        assert_all(by_32, LINE);
    if (__builtin_cpu_supports("avx512f")) {
        assert_all(by_64, LINE);
        assert_all(by_64_demoted, LINE); /* what lets lines go is nothing to a processor that cannot */
    }
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length),
        cmocka_unit_test(whole_lines_every_way),
    };
    return cmocka_run_group_tests_name("streamed", tests, NULL, NULL);
}
