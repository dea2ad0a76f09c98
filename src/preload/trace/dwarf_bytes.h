/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads numbers of an unwind table. A read beyond the table's end returns zeros and sets `failed`,
 * which the caller checks at the end.
 */
#pragma once

#include "base/base.h"

struct gf_bytes {
    const unsigned char *at, *end;
    bool failed;
};

static inline void gf_bytes_take(struct gf_bytes *bytes, void *ret, size_t size)
{
    if (gf_unlikely(size > (size_t)(bytes->end - bytes->at))) {
        bytes->failed = true;
        bytes->at = bytes->end;
        memset(ret, 0, size);
        return;
    }
    memcpy(ret, bytes->at, size);
    bytes->at += size;
}

static inline void gf_bytes_skip(struct gf_bytes *bytes, uint64_t size)
{
    if (size > (size_t)(bytes->end - bytes->at)) {
        bytes->failed = true;
        size = (uint64_t)(bytes->end - bytes->at);
    }
    bytes->at += size;
}

#define GF_BYTES_NUMBER(name, type)                                                                \
    static inline type name(struct gf_bytes *bytes)                                                \
    {                                                                                              \
        type value;                                                                                \
        gf_bytes_take(bytes, &value, sizeof(value));                                               \
        return value;                                                                              \
    }
GF_BYTES_NUMBER(gf_bytes_u8, uint8_t)
GF_BYTES_NUMBER(gf_bytes_u16, uint16_t)
GF_BYTES_NUMBER(gf_bytes_u32, uint32_t)
GF_BYTES_NUMBER(gf_bytes_u64, uint64_t)

/* LEB128: seven bits per byte, the lowest first. */
static inline uint64_t gf_bytes_leb(struct gf_bytes *bytes, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0, byte;
    do {
        byte = gf_bytes_u8(bytes);
        if (shift < 64) {
            value |= (uint64_t)(byte & 0x7f) << shift;
            shift += 7;
        }
    } while (byte & 0x80);
    if (is_signed && shift < 64 && (byte & 0x40))
        value |= ~UINT64_C(0) << shift;
    return value;
}

static inline uint64_t gf_bytes_uleb(struct gf_bytes *bytes)
{
    return gf_bytes_leb(bytes, false);
}

static inline int64_t gf_bytes_sleb(struct gf_bytes *bytes)
{
    return (int64_t)gf_bytes_leb(bytes, true);
}
