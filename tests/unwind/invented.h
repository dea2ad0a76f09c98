/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invented registers and memory, to apply rows without a thread. All registers and words differ, so
 * that a result shows its source. The stack pointer is the lowest value, because stacks grow down.
 */
#ifndef GF_TESTS_UNWIND_INVENTED_H
#define GF_TESTS_UNWIND_INVENTED_H

#include "own.h"

#include <string.h>

static inline uint64_t invented_number(uint64_t seed)
{
    seed = (seed ^ (seed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    seed = (seed ^ (seed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return seed ^ (seed >> 31);
}

static inline struct gf_dwarf_frame invented_frame(uintptr_t pc)
{
    struct gf_dwarf_frame frame = {.pc = pc};

    for (unsigned i = 0; i < GF_REGISTERS; i++)
        frame.value[i] = UINT64_C(0x600000000000) + ((uint64_t)i << 32);
    frame.value[GF_REGISTER_SP] = UINT64_C(0x500000000000);
    frame.value[16] = pc;
    return frame;
}

static inline unsigned char invented_byte(uintptr_t address)
{
    const uint64_t word =
        UINT64_C(0x700000000000) | (invented_number(address / 8) & UINT64_C(0x0ffffffffff8));
    return (unsigned char)(word >> address % 8 * 8);
}

/* The table's own bytes are readable at their address. */
static inline bool invented_read(const struct gf_table *table, uintptr_t address, uintptr_t *ret)
{
    unsigned char byte[sizeof(*ret)];

    for (size_t i = 0; i < sizeof(*ret); i++) {
        const uintptr_t at = address + i;
        byte[i] = at - (uintptr_t)table->start < (size_t)(table->end - table->start)
                      ? *(const unsigned char *)at
                      : invented_byte(at);
    }
    memcpy(ret, byte, sizeof(*ret));
    return true;
}

#endif
