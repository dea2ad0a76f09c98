/* SPDX-License-Identifier: Apache-2.0 */
#include "base/textbuf.h"

#include "base/fmt.h"

void gf_say(struct gf_textbuf *words, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (words->at < words->size)
        words->at += (size_t)gf_vfmt(words->buf + words->at, words->size - words->at, format, args);
    va_end(args);
}

void gf_say_bytes(struct gf_textbuf *words, uint64_t bytes)
{
    const uint64_t mib = bytes >> 20;
    if (mib >= 10240)
        gf_say(words, "%llu.%llu GiB", (unsigned long long)(mib / 1024),
               (unsigned long long)(mib % 1024 * 10 / 1024));
    else
        gf_say(words, "%llu MiB", (unsigned long long)mib);
}
