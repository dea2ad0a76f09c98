/* SPDX-License-Identifier: Apache-2.0 */
#include "base/plain_text.h"

#include "base/base.h"

#include <string.h>

/* Decodes one character. Returns its length in bytes, or 0 if the bytes are not UTF-8. */
static unsigned decode(const unsigned char *at, uint32_t *ret)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned length = *at < 0x80 ? 1 : *at >> 5 == 6 ? 2 : *at >> 4 == 14 ? 3 : 4;

    *ret = length == 1 ? *at : *at & (0x7fU >> length);
    if (length == 4 && *at >> 3 != 30)
        return 0;
    for (unsigned i = 1; i < length; i++) {
        if (at[i] >> 6 != 2) /* also ends at the final zero byte */
            return 0;
        *ret = *ret << 6 | (at[i] & 0x3f);
    }
    return *ret >= least[length] && *ret <= 0x10ffff && *ret >> 11 != 0x1b ? length : 0;
}

static bool is_plain(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } refused[] = {{0, 0x1f},        {0x7f, 0x9f},     {0x61c, 0x61c},
                   {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};

    for (size_t i = 0; i < GF_ARRAY_LEN(refused); i++)
        if (c >= refused[i].first && c <= refused[i].last)
            return false;
    return true;
}

char *gf_plain_text(char *text)
{
    uint32_t c;

    for (unsigned char *at = (unsigned char *)text; *at;) {
        const unsigned length = decode(at, &c);
        const unsigned step = length ? length : 1;
        if (!length || !is_plain(c))
            memset(at, '?', step);
        at += step;
    }
    return text;
}
