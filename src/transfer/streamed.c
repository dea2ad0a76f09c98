/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/streamed.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
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

#define AHEAD 1024 /* so far ahead lines are fetched, to be written... */
#define BEHIND 512 /* ...and so far behind they are let go of, when the stores have arrived */

static inline void demote(char *line)
{
    __asm__ volatile(".byte 0x0f, 0x1c, 0x00" ::"a"(line) : "memory"); /* cldemote (%rax) */
}

__attribute__((target("avx512f"))) static void by_64_demoted(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += LINE) {
        __asm__ volatile("prefetchw %0" ::"m"(to[i + AHEAD])); /* never faults */
        _mm512_store_si512((__m512i *)(to + i), _mm512_loadu_si512(from + i));
        if (i >= BEHIND)
            demote(to + i - BEHIND);
    }
    for (size_t i = bytes > BEHIND ? bytes - BEHIND : 0; i < bytes; i += LINE)
        demote(to + i);
}

/* What the system saves of a thread's registers is looked at too. */
static void (*choose(void))(char *, const char *, size_t)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") ? by_64 : __builtin_cpu_supports("avx2") ? by_32 : by_16;
}

/* Intel's manual, volume 2, CPUID: leaf 7, ECX bit 25. */
static bool has_cldemote(void)
{
    unsigned a, b, c, d;
    return __builtin_cpu_supports("avx512f") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & (1u << 25));
}

bool gf_demote_is_possible(void)
{
    static unsigned known; /* 1 no, 2 yes; the same by every thread */
    unsigned answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!answer) {
        __builtin_cpu_init();
        answer = has_cldemote() ? 2 : 1;
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer == 2;
}

static void copy_all(void (*copy)(char *, const char *, size_t), char *to, const char *from, size_t bytes)
{
    const size_t whole = bytes / LINE * LINE;
    copy(to, from, whole);
    memcpy(to + whole, from + whole, bytes - whole);
    _mm_sfence(); /* before anybody is told that it is there */
}

void gf_stream_copy(char *to, const char *from, size_t bytes)
{
    static void (*chosen)(char *, const char *, size_t); /* the same by every thread */
    void (*copy)(char *, const char *, size_t) = __atomic_load_n(&chosen, __ATOMIC_RELAXED);

    if (!copy) {
        copy = choose();
        __atomic_store_n(&chosen, copy, __ATOMIC_RELAXED);
    }
    copy_all(copy, to, from, bytes);
}

void gf_demote_copy(char *to, const char *from, size_t bytes)
{
    if (gf_demote_is_possible())
        copy_all(by_64_demoted, to, from, bytes);
    else
        gf_stream_copy(to, from, bytes);
}
#else
void gf_stream_copy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void gf_demote_copy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

bool gf_demote_is_possible(void)
{
    return false;
}
#endif
