/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information (DWARF), from the unwind table of an object. The code reads the mapped
 * table, and never beyond the given bounds, so a damaged table does no harm. No function here takes
 * a lock or allocates. The functions may be called on any thread, also inside malloc.
 */
#pragma once

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
 * An object's unwind table in memory: the header of its sorted index (.eh_frame_hdr), and the
 * readable segment, from start to end, that contains header and table.
 */
struct gf_table {
    const unsigned char *header, *start, *end;
};

/*
 * A row of the table: where the caller's registers are saved. A rule refers to the canonical frame
 * address (CFA), to another register, or to an expression.
 */
struct gf_row {
    unsigned char rule[GF_REGISTERS];
    /*
     * Depending on the rule: an offset from the CFA, the number of a register, or the offset of an
     * expression in the table.
     */
    int32_t at[GF_REGISTERS];
    unsigned cfa_register;
    int64_t cfa_offset;
    const unsigned char *cfa_expression; /* NULL: the CFA is register + offset */
};

struct gf_rows {
    struct gf_row now, initial, kept[2];
    unsigned return_column;
    bool signal; /* a signal frame: the return address is the interrupted instruction */
};

/*
 * Finds the row for pc. False if the table has no row, or uses an operation that is not
 * implemented.
 */
bool gf_dwarf_find(const struct gf_table *table, uintptr_t pc, struct gf_rows *ret);

/* Reads a word of memory. Returns false if the address is not mapped. */
typedef bool gf_dwarf_read(void *closure, uintptr_t address, uintptr_t *ret);

/*
 * Evaluates a DWARF expression in the table. `expression` points to the length of the expression;
 * the expression itself follows. Unless `first` is NULL, *first is on the stack when the evaluation
 * begins. Returns false if memory cannot be read, or if an operation is not implemented.
 */
bool gf_dwarf_evaluate(const struct gf_table *table, const unsigned char *expression,
                       const uintptr_t *registers, gf_dwarf_read *read, void *closure,
                       const uintptr_t *first, uintptr_t *ret);

/*
 * A thread's registers in one frame. On x86_64, value[16] must also contain the pc, because the
 * rows of PLT entries use it.
 */
struct gf_dwarf_frame {
    uintptr_t pc, value[GF_REGISTERS];
};

/*
 * Replaces a frame by the frame of its caller. The new pc is inside the call instruction or, after
 * a signal frame, at the interrupted instruction. Other registers whose saved values cannot be read
 * become 0. Returns false at the outermost frame, if the table has no row for pc, if the CFA or the
 * return address cannot be read, or if the caller's frame does not lie above this one. rows: scratch
 * memory.
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
