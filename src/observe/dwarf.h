/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information: what one frame's unwind table says. Reads mapped tables only, and nothing
 * of them beyond the bounds that it is given: a table may be anything.
 */
#ifndef GF_OBSERVE_DWARF_H
#define GF_OBSERVE_DWARF_H

#include "base/base.h"

#if defined(__x86_64__)
#define GF_REGISTERS 17 /* 16 is the return address */
#define GF_REGISTER_SP 7
#define GF_REGISTER_FP 6
#elif defined(__aarch64__)
#define GF_REGISTERS 32
#define GF_REGISTER_SP 31
#define GF_REGISTER_FP 29
#endif

enum gf_rule { gf_rule_same, gf_rule_undefined, gf_rule_offset, gf_rule_value, gf_rule_register,
               gf_rule_expression, gf_rule_value_expression };

/* An object's header of its sorted table, and the readable segment in which both lie. */
struct gf_table {
    const unsigned char *header, *start, *end;
};

/* How to find the caller's registers: from the canonical frame address (CFA), or by an expression. */
struct gf_row {
    unsigned char rule[GF_REGISTERS];
    int32_t at[GF_REGISTERS]; /* an offset from the CFA, a register, or an expression's in the table */
    unsigned cfa_register;
    int64_t cfa_offset;
    const unsigned char *cfa_expression; /* NULL: register + offset */
};

struct gf_rows {
    struct gf_row now, initial, kept[2];
    unsigned return_column;
    bool signal; /* a signal's frame: its return address is exact */
};

/* The row for pc. False where there is none or the table holds something that is not known here. */
bool gf_dwarf_find(const struct gf_table *table, uintptr_t pc, struct gf_rows *ret);

/* Fetches a word of memory; false where there is none. */
typedef bool gf_dwarf_read(void *closure, uintptr_t address, uintptr_t *ret);

/*
 * The value of an expression of the table, its length first. `first` lies on its stack; NULL:
 * nothing does. False where it holds something that is not known here.
 */
bool gf_dwarf_evaluate(const struct gf_table *table, const unsigned char *expression,
                       const uintptr_t *registers, gf_dwarf_read *read, void *closure,
                       const uintptr_t *first, uintptr_t *ret);

#endif
