/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions: the few words of DWARF's stack language that unwind tables are written in. */
#include "observe/dwarf.h"

#include "observe/dwarf_bytes.h"

struct stack {
    uintptr_t value[8];
    unsigned depth;
};

static bool push(struct stack *stack, uintptr_t value)
{
    if (stack->depth == GF_ARRAY_LEN(stack->value))
        return false;
    stack->value[stack->depth++] = value;
    return true;
}

/* Those of two operands: procedure linkage tables have them. */
static bool combine(struct stack *stack, unsigned code)
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
        return push(stack, code - 0x30);
    switch (code) {
    case 0x08:
        return push(stack, gf_bytes_u8(bytes));
    case 0x09:
        return push(stack, (uintptr_t)(intptr_t)(int8_t)gf_bytes_u8(bytes));
    case 0x10:
        return push(stack, gf_bytes_uleb(bytes));
    case 0x11:
        return push(stack, (uintptr_t)gf_bytes_sleb(bytes));
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
        push(&stack, *first);
    while (bytes.at < bytes.end) {
        const unsigned code = gf_bytes_u8(&bytes);
        if (code >= 0x70 && code <= 0x8f) { /* breg */
            if (code - 0x70 >= GF_REGISTERS ||
                !push(&stack, registers[code - 0x70] + (uintptr_t)gf_bytes_sleb(&bytes)))
                return false;
        } else if (code == 0x06) { /* deref */
            if (!stack.depth || !read(closure, stack.value[stack.depth - 1],
                                      &stack.value[stack.depth - 1]))
                return false;
        } else if (code == 0x23) { /* plus_uconst */
            if (!stack.depth)
                return false;
            stack.value[stack.depth - 1] += gf_bytes_uleb(&bytes);
        } else if (!push_constant(&stack, code, &bytes) && !combine(&stack, code)) {
            return false;
        }
    }
    if (!stack.depth || bytes.failed)
        return false;
    *ret = stack.value[stack.depth - 1];
    return true;
}
