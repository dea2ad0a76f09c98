/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/transfer/pinned/zero.h"

#include "base/base.h"
#include "engine/transfer/host_copy.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx2"))) static bool is_zero_by_32(const char *page)
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (size_t i = 0; i < GF_ZERO_PAGE; i += 128) {
        a = _mm256_or_si256(a, _mm256_load_si256((const __m256i *)(page + i)));
        b = _mm256_or_si256(b, _mm256_load_si256((const __m256i *)(page + i + 32)));
        c = _mm256_or_si256(c, _mm256_load_si256((const __m256i *)(page + i + 64)));
        d = _mm256_or_si256(d, _mm256_load_si256((const __m256i *)(page + i + 96)));
    }
    a = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
    return _mm256_testz_si256(a, a);
}

__attribute__((target("avx512f"))) static bool is_zero_by_64(const char *page)
{
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (size_t i = 0; i < GF_ZERO_PAGE; i += 256) {
        a = _mm512_or_si512(a, _mm512_load_si512(page + i));
        b = _mm512_or_si512(b, _mm512_load_si512(page + i + 64));
        c = _mm512_or_si512(c, _mm512_load_si512(page + i + 128));
        d = _mm512_or_si512(d, _mm512_load_si512(page + i + 192));
    }
    a = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
    return _mm512_test_epi64_mask(a, a) == 0;
}

const struct gf_zero_way *gf_zero_ways(size_t *ret_count)
{
    static const struct gf_zero_way ways[] = {{gf_simd_has_avx512, is_zero_by_64},
                                              {gf_simd_has_avx2, is_zero_by_32}};
    *ret_count = GF_ARRAY_LEN(ways);
    return ways;
}
#else
const struct gf_zero_way *gf_zero_ways(size_t *ret_count)
{
    *ret_count = 0;
    return NULL;
}
#endif

static void zero_pages(char *at, size_t bytes)
{
    size_t count, way = 0;
    const struct gf_zero_way *ways = gf_zero_ways(&count);

    while (way < count && !ways[way].can_run())
        way++;
    if (way == count) { /* without wide registers, checking a page takes as long as writing it */
        memset(at, 0, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += GF_ZERO_PAGE)
        if (!ways[way].is_zero_page(at + i))
            memset(at + i, 0, GF_ZERO_PAGE);
}

void gf_zero(char *at, size_t bytes)
{
    const size_t head = gf_min(-(uintptr_t)at % GF_ZERO_PAGE, bytes);
    const size_t pages = (bytes - head) / GF_ZERO_PAGE * GF_ZERO_PAGE;

    memset(at, 0, head);
    zero_pages(at + head, pages);
    memset(at + head + pages, 0, bytes - head - pages);
}
