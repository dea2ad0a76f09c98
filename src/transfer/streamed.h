/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying into the ring, which the device reads next and no processor again: with stores that do
 * not fetch the lines they overwrite, which lie modified in the cache of whoever filled them last.
 * Two threads are a third faster so, eight a tenth. What is copied out of the ring is wanted by the
 * program next: memcpy.
 */
#ifndef GF_TRANSFER_STREAMED_H
#define GF_TRANSFER_STREAMED_H

#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

/* `to` is aligned to 16 bytes. */
static inline void gf_stream_copy(char *to, const char *from, size_t bytes)
{
    const size_t whole = bytes & ~(size_t)63;
    for (size_t i = 0; i < whole; i += 64) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(from + i));
        const __m128i b = _mm_loadu_si128((const __m128i *)(from + i + 16));
        const __m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
        const __m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));
        _mm_stream_si128((__m128i *)(to + i), a);
        _mm_stream_si128((__m128i *)(to + i + 16), b);
        _mm_stream_si128((__m128i *)(to + i + 32), c);
        _mm_stream_si128((__m128i *)(to + i + 48), d);
    }
    memcpy(to + whole, from + whole, bytes - whole);
    _mm_sfence(); /* before anybody is told that it is there */
}
#else
static inline void gf_stream_copy(char *to, const char *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif

#endif
