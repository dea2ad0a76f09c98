/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GF_BASE_UTF8_H
#define GF_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/*
 * Writes one code point as UTF-8, without a terminating null. Returns the number of bytes written.
 */
static inline size_t gf_utf8_encode(uint32_t point, char ret[4])
{
    if (point < 0x80) {
        ret[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        ret[0] = (char)(0xc0 | point >> 6);
        ret[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        ret[0] = (char)(0xe0 | point >> 12);
        ret[1] = (char)(0x80 | (point >> 6 & 0x3f));
        ret[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    ret[0] = (char)(0xf0 | point >> 18);
    ret[1] = (char)(0x80 | (point >> 12 & 0x3f));
    ret[2] = (char)(0x80 | (point >> 6 & 0x3f));
    ret[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

#endif
