/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information (DWARF), from the unwind table of an object. The code reads the mapped
 * table, never beyond the given bounds, so a damaged table does no harm. No lock, no allocation;
 * any thread, inside malloc.
 */
#ifndef GF_PRELOAD_TRACE_UNWIND_DWARF_H
#define GF_PRELOAD_TRACE_UNWIND_DWARF_H

#include "base/base.h"

#if defined(__x86_64__)
#define GF_REGISTERS 17 /* register 16 is the return address */
#define GF_REGISTER_SP 7
#define GF_REGISTER_FP 6
#elif defined(__aarch64__)
#define GF_REGISTERS 32
#define GF_REGISTER_SP 31
#define GF_REGISTER_FP 29
#endif

enum gf_rule {
    gf_rule_same,
    gf_rule_undefined,
    gf_rule_offset,
    gf_rule_value,
    gf_rule_register,
    gf_rule_expression,
    gf_rule_value_expression
};

/*
 * The header of an object's sorted table (.eh_frame_hdr), and the readable segment that contains
 * header and table.
 */
struct gf_table {
    const unsigned char *header, *start, *end;
};

/*
 * How to find the caller's registers: from the canonical frame address (CFA), a register, or an
 * expression.
 */
struct gf_row {
    unsigned char rule[GF_REGISTERS];
    int32_t
        /* an offset from the CFA, a register's value, or an expression in the table */
        at[GF_REGISTERS];
    unsigned cfa_register;
    int64_t cfa_offset;
    const unsigned char *cfa_expression; /* NULL: the CFA is register + offset */
};

struct gf_rows {
    struct gf_row now, initial, kept[2];
    unsigned return_column;
    bool signal; /* a signal frame, whose return address is exact */
};

/*
 * Finds the row for pc. False if the table has no row, or uses an operation that is not
 * implemented.
 */
bool gf_dwarf_find(const struct gf_table *table, uintptr_t pc, struct gf_rows *ret);

/* Reads a word of memory. False if it is not mapped. */
typedef bool gf_dwarf_read(void *closure, uintptr_t address, uintptr_t *ret);

/*
 * Evaluates an expression in the table, which begins with its length. `first` is pushed first,
 * unless NULL. False for operations that are not implemented.
 */
bool gf_dwarf_evaluate(const struct gf_table *table, const unsigned char *expression,
                       const uintptr_t *registers, gf_dwarf_read *read, void *closure,
                       const uintptr_t *first, uintptr_t *ret);

/*
 * A thread's registers in one frame. On x86_64, value[16] must also contain the pc, because the
 * rows of PLTs use it.
 */
struct gf_dwarf_frame {
    uintptr_t pc, value[GF_REGISTERS];
};

/*
 * Replaces a frame by its caller's. The new pc is inside the call instruction, or, after a signal
 * frame, at the interrupted instruction. False at the outermost frame, without a row for pc, if
 * memory cannot be read, or if the stack does not grow. rows: scratch memory.
 */
bool gf_dwarf_step(const struct gf_table *table, struct gf_dwarf_frame *frame, struct gf_rows *rows,
                   gf_dwarf_read *read, void *closure);

/* Removes the upper bits of a return address, which pointer authentication sets. */
static inline uintptr_t gf_dwarf_strip(uintptr_t address)
{
#if defined(__aarch64__)
    return address & ((UINT64_C(1) << 48) - 1);
#else
    return address;
#endif
}

#endif
