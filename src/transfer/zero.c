/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/zero.h"

#include "base/base.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PAGE ((size_t)4096) /* so much is looked at, and then written or not */

#if defined(__x86_64__)
#include <immintrin.h>

/* Each of whole pages, aligned to what it loads at once. */

__attribute__((target("avx2"))) static bool is_zero_by_32(const char *at)
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (size_t i = 0; i < PAGE; i += 128) {
        a = _mm256_or_si256(a, _mm256_load_si256((const __m256i *)(at + i)));
        b = _mm256_or_si256(b, _mm256_load_si256((const __m256i *)(at + i + 32)));
        c = _mm256_or_si256(c, _mm256_load_si256((const __m256i *)(at + i + 64)));
        d = _mm256_or_si256(d, _mm256_load_si256((const __m256i *)(at + i + 96)));
    }
    a = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
    return _mm256_testz_si256(a, a);
}

__attribute__((target("avx512f"))) static bool is_zero_by_64(const char *at)
{
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (size_t i = 0; i < PAGE; i += 256) {
        a = _mm512_or_si512(a, _mm512_load_si512(at + i));
        b = _mm512_or_si512(b, _mm512_load_si512(at + i + 64));
        c = _mm512_or_si512(c, _mm512_load_si512(at + i + 128));
        d = _mm512_or_si512(d, _mm512_load_si512(at + i + 192));
    }
    a = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
    return _mm512_test_epi64_mask(a, a) == 0;
}

/* NULL: looking would take as long as writing. */
static bool (*choose(void))(const char *)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") ? is_zero_by_64
           : __builtin_cpu_supports("avx2")  ? is_zero_by_32
                                             : NULL;
}
#else
static bool (*choose(void))(const char *)
{
    return NULL;
}
#endif

static void zero_pages(char *at, size_t bytes)
{
    bool (*const is_zero)(const char *) = choose();

    if (!is_zero) {
        memset(at, 0, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += PAGE)
        if (!is_zero(at + i))
            memset(at + i, 0, PAGE);
}

void gf_zero(char *at, size_t bytes)
{
    const size_t head = gf_min(-(uintptr_t)at % PAGE, bytes), pages = (bytes - head) / PAGE * PAGE;

    memset(at, 0, head);
    zero_pages(at + head, pages);
    memset(at + head + pages, 0, bytes - head - pages);
}
