/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/streamed.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define LINE ((size_t)64)

/* Each copies whole lines. */

static void by_16(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(from + i));
        const __m128i b = _mm_loadu_si128((const __m128i *)(from + i + 16));
        const __m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
        const __m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));
        _mm_stream_si128((__m128i *)(to + i), a);
        _mm_stream_si128((__m128i *)(to + i + 16), b);
        _mm_stream_si128((__m128i *)(to + i + 32), c);
        _mm_stream_si128((__m128i *)(to + i + 48), d);
    }
}

__attribute__((target("avx2"))) static void by_32(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE) {
        const __m256i a = _mm256_loadu_si256((const __m256i *)(from + i));
        const __m256i b = _mm256_loadu_si256((const __m256i *)(from + i + 32));
        _mm256_stream_si256((__m256i *)(to + i), a);
        _mm256_stream_si256((__m256i *)(to + i + 32), b);
    }
}

__attribute__((target("avx512f"))) static void by_64(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE)
        _mm512_stream_si512((__m512i *)(to + i), _mm512_loadu_si512(from + i));
}

/* What the system saves of a thread's registers is looked at too. */
static void (*choose(void))(char *, const char *, size_t)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") ? by_64 : __builtin_cpu_supports("avx2") ? by_32 : by_16;
}

void gf_stream_copy(char *to, const char *from, size_t bytes)
{
    static void (*chosen)(char *, const char *, size_t); /* the same by every thread */
    void (*copy)(char *, const char *, size_t) = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    const size_t whole = bytes / LINE * LINE;

    if (!copy) {
        copy = choose();
        __atomic_store_n(&chosen, copy, __ATOMIC_RELAXED);
    }
    copy(to, from, whole);
    memcpy(to + whole, from + whole, bytes - whole);
    _mm_sfence(); /* before anybody is told that it is there */
}
#else
void gf_stream_copy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif
