/* SPDX-License-Identifier: Apache-2.0 */
/* Applies a row of the table: its rules, and the DWARF expressions that its rules use. */
#include "preload/trace/unwind/dwarf.h"

#include "preload/trace/unwind/dwarf_bytes.h"

#include <string.h>

struct stack {
    uintptr_t value[8];
    unsigned depth;
};

static bool push_value(struct stack *stack, uintptr_t value)
{
    if (stack->depth == GF_ARRAY_LEN(stack->value))
        return false;
    stack->value[stack->depth++] = value;
    return true;
}

/* Executes an operator with two operands. The rows of PLT entries use such operators. */
static bool apply_binary(struct stack *stack, unsigned code)
{
    if (stack->depth < 2)
        return false;
    const uintptr_t b = stack->value[--stack->depth];
    uintptr_t *a = &stack->value[stack->depth - 1];

    switch (code) {
    case 0x1a:
        *a &= b;
        return true;
    case 0x1c:
        *a -= b;
        return true;
    case 0x22:
        *a += b;
        return true;
    case 0x24:
        *a = b < 64 ? *a << b : 0;
        return true;
    case 0x2a:
        *a = (intptr_t)*a >= (intptr_t)b;
        return true;
    default:
        return false;
    }
}

static bool push_constant(struct stack *stack, unsigned code, struct gf_bytes *bytes)
{
    if (code >= 0x30 && code <= 0x4f)
        return push_value(stack, code - 0x30);
    switch (code) {
    case 0x08:
        return push_value(stack, gf_bytes_u8(bytes));
    case 0x09:
        return push_value(stack, (uintptr_t)(intptr_t)(int8_t)gf_bytes_u8(bytes));
    case 0x10:
        return push_value(stack, gf_bytes_uleb(bytes));
    case 0x11:
        return push_value(stack, (uintptr_t)gf_bytes_sleb(bytes));
    default:
        return false;
    }
}

bool gf_dwarf_evaluate(const struct gf_table *table, const unsigned char *expression,
                       const uintptr_t *registers, gf_dwarf_read *read, void *closure,
                       const uintptr_t *first, uintptr_t *ret)
{
    struct gf_bytes bytes = {expression, table->end, false};
    const uint64_t length = gf_bytes_uleb(&bytes);
    struct stack stack = {.depth = 0};

    if (length > (size_t)(bytes.end - bytes.at))
        return false;
    bytes.end = bytes.at + length;
    if (first)
        push_value(&stack, *first);
    while (bytes.at < bytes.end) {
        const unsigned code = gf_bytes_u8(&bytes);
        if (code >= 0x70 && code <= 0x8f) { /* breg */
            if (code - 0x70 >= GF_REGISTERS ||
                !push_value(&stack, registers[code - 0x70] + (uintptr_t)gf_bytes_sleb(&bytes)))
                return false;
        } else if (code == 0x06) { /* deref */
            if (!stack.depth ||
                !read(closure, stack.value[stack.depth - 1], &stack.value[stack.depth - 1]))
                return false;
        } else if (code == 0x23) { /* plus_uconst */
            if (!stack.depth)
                return false;
            stack.value[stack.depth - 1] += gf_bytes_uleb(&bytes);
        } else if (!push_constant(&stack, code, &bytes) && !apply_binary(&stack, code)) {
            return false;
        }
    }
    if (!stack.depth || bytes.failed)
        return false;
    *ret = stack.value[stack.depth - 1];
    return true;
}

/* A row, and the frame to which it is applied. */
struct applied {
    const struct gf_table *table;
    const struct gf_row *row;
    const uintptr_t *registers; /* registers of the frame that is unwound */
    gf_dwarf_read *read;
    void *closure;
    uintptr_t cfa;
};

static bool find_cfa(struct applied *a)
{
    if (a->row->cfa_expression)
        return gf_dwarf_evaluate(a->table, a->row->cfa_expression, a->registers, a->read,
                                 a->closure, NULL, &a->cfa);
    a->cfa = a->registers[a->row->cfa_register] + (uintptr_t)a->row->cfa_offset;
    return true;
}

/*
 * Reads a register's saved value. The result is 0 if it cannot be read: compilers' tables are wrong
 * in some epilogues for a register that is not needed there. A caller's frame that needs the
 * register ends the walk, because a CFA near 0 does not lie above the frame.
 */
static uintptr_t read_saved(const struct applied *a, uintptr_t address)
{
    uintptr_t ret;
    return a->read(a->closure, address, &ret) ? ret : 0;
}

static bool find_value(const struct applied *a, unsigned i, uintptr_t *ret)
{
    const unsigned char *expression = a->table->start + a->row->at[i];

    switch (a->row->rule[i]) {
    case gf_rule_offset:
        *ret = read_saved(a, a->cfa + (uintptr_t)(intptr_t)a->row->at[i]);
        return true;
    case gf_rule_value:
        *ret = a->cfa + (uintptr_t)(intptr_t)a->row->at[i];
        return true;
    case gf_rule_register:
        *ret = a->registers[a->row->at[i]];
        return true;
    case gf_rule_expression:
        if (!gf_dwarf_evaluate(a->table, expression, a->registers, a->read, a->closure, &a->cfa,
                               ret))
            return false;
        *ret = read_saved(a, *ret);
        return true;
    case gf_rule_value_expression:
        return gf_dwarf_evaluate(a->table, expression, a->registers, a->read, a->closure, &a->cfa,
                                 ret);
    default:
        return true;
    }
}

bool gf_dwarf_step(const struct gf_table *table, struct gf_dwarf_frame *frame, struct gf_rows *rows,
                   gf_dwarf_read *read, void *closure)
{
    uintptr_t before[GF_REGISTERS];
    struct applied a = {table, &rows->now, before, read, closure, 0};

    memcpy(before, frame->value, sizeof(before));
    if (!gf_dwarf_find(table, frame->pc, rows) || !find_cfa(&a))
        return false;
    /*
     * The caller's frame must lie above this frame. Both may have the same address only if the
     * return address was popped into a register, as in vfork.
     */
    const unsigned back = rows->now.rule[rows->return_column];
    if (back == gf_rule_undefined || a.cfa < before[GF_REGISTER_SP] ||
        (a.cfa == before[GF_REGISTER_SP] && back != gf_rule_register))
        return false;
    for (unsigned i = 0; i < GF_REGISTERS; i++)
        if (!find_value(&a, i, &frame->value[i]))
            return false;
    frame->value[GF_REGISTER_SP] = a.cfa;
    frame->pc = gf_dwarf_strip(frame->value[rows->return_column]) - !rows->signal;
    return frame->pc + 1 > 1;
}
