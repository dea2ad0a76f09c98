/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers in a program whose thread-local variables take nearly all of their stacks. */
#include "unit.h"

#include "own_maps.h"
#include "base/atomic.h"
#include "engine/transfer/helper.h"

#include <alloca.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define HELPERS 6
#define KIB ((size_t)1 << 10)
#define STACK (2048 * KIB) /* at least, so that frames have 1 MiB */

static __thread volatile unsigned char large[1012 * KIB];
static pthread_barrier_t written, used, told;
static _Atomic unsigned numbered, intact;

static void fill(volatile unsigned char *at, unsigned char byte, size_t bytes)
{
    while (bytes-- > 0)
        at[bytes] = byte;
}

static __attribute__((noinline)) void use_stack(void)
{
    fill(alloca(40 * KIB), 0xee, 40 * KIB);
    pthread_barrier_wait(&used);
}

static void *help(void *closure)
{
    const unsigned char mine = (unsigned char)(gf_add_relaxed(&numbered, 1) + 1);
    bool right = true;

    fill(large, mine, sizeof(large));
    pthread_barrier_wait(&written);
    use_stack();
    for (size_t i = 0; i < sizeof(large); i++)
        right = right && large[i] == mine;
    gf_add_relaxed(&intact, right);
    pthread_barrier_wait(&told);
    pause();
    return closure;
}

static unsigned mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned lines = 0;

    assert_non_null(maps);
    for (int c; (c = getc(maps)) != EOF;)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

/* The stacks are one mapping, and those of a failed attempt are unmapped. */
static void no_stack_reaches_into_another(void **state)
{
    (void)state;
    pthread_barrier_init(&written, NULL, HELPERS);
    pthread_barrier_init(&used, NULL, HELPERS);
    pthread_barrier_init(&told, NULL, HELPERS + 1);

    const unsigned mappings_before = mappings();
    const size_t before = address_space();
    assert_int_equal(gf_helpers_start(HELPERS, help, NULL), 0);
    const unsigned more_mappings = mappings() - mappings_before;
    const size_t more = address_space() - before;
    pthread_barrier_wait(&told);
    assert_int_equal(intact, HELPERS);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_in_range(more, HELPERS * STACK, HELPERS * STACK + 1024 * KIB);
    assert_in_range(more_mappings, 0, 2);
#else
    (void)more, (void)more_mappings; /* a sanitizer adds mappings of its own */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_stack_reaches_into_another),
    };
    return cmocka_run_group_tests_name("helper", tests, NULL, NULL);
}
