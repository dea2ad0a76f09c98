/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/dwarf.h"

#include <string.h>

enum { enc_absptr = 0x00, enc_udata2 = 0x02, enc_udata4 = 0x03, enc_udata8 = 0x04,
       enc_sdata2 = 0x0a, enc_sdata4 = 0x0b, enc_sdata8 = 0x0c, enc_pcrel = 0x10,
       enc_datarel = 0x30, enc_indirect = 0x80, enc_omit = 0xff };

#define READ(type, at)                                                                             \
    ({                                                                                             \
        type value_;                                                                               \
        memcpy(&value_, (at), sizeof(value_));                                                     \
        value_;                                                                                    \
    })

static uint64_t read_uleb(const unsigned char **at)
{
    uint64_t value = 0;
    unsigned shift = 0;
    unsigned char byte;
    do {
        byte = *(*at)++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    return value;
}

static int64_t read_sleb(const unsigned char **at)
{
    uint64_t value = 0;
    unsigned shift = 0;
    unsigned char byte;
    do {
        byte = *(*at)++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (shift < 64 && (byte & 0x40))
        value |= ~UINT64_C(0) << shift;
    return (int64_t)value;
}

/* The part of an encoded pointer that stands there, without what it is relative to. */
static bool read_plain(const unsigned char **at, unsigned encoding, uint64_t *ret)
{
    switch (encoding & 0x0f) {
    case enc_absptr:
    case enc_udata8:
    case enc_sdata8:
        *ret = READ(uint64_t, *at);
        *at += 8;
        return true;
    case enc_udata4:
        *ret = READ(uint32_t, *at);
        *at += 4;
        return true;
    case enc_sdata4:
        *ret = (uint64_t)(int64_t)READ(int32_t, *at);
        *at += 4;
        return true;
    case enc_udata2:
        *ret = READ(uint16_t, *at);
        *at += 2;
        return true;
    case enc_sdata2:
        *ret = (uint64_t)(int64_t)READ(int16_t, *at);
        *at += 2;
        return true;
    default:
        return false;
    }
}

static bool read_pointer(const unsigned char **at, unsigned encoding, uint64_t *ret)
{
    const uintptr_t from = (uintptr_t)*at;
    if ((encoding & 0x70 & ~enc_pcrel) || (encoding & enc_indirect) ||
        !read_plain(at, encoding, ret))
        return false;
    if (encoding & enc_pcrel)
        *ret += from;
    return true;
}

struct common {
    uint64_t code_align;
    int64_t data_align;
    unsigned return_column;
    unsigned encoding;
    bool augmented, signal;
    const unsigned char *program, *end;
};

static bool read_augmentation(const char *letters, const unsigned char **at, struct common *ret)
{
    uint64_t skipped;

    for (; *letters; letters++) {
        switch (*letters) {
        case 'R':
            ret->encoding = *(*at)++;
            break;
        case 'L':
            (*at)++;
            break;
        case 'P': {
            const unsigned encoding = *(*at)++;
            if (!read_plain(at, encoding, &skipped))
                return false;
            break;
        }
        case 'S':
            ret->signal = true;
            break;
        case 'B':
            break;
        default:
            return false;
        }
    }
    return true;
}

static bool read_common(const unsigned char *entry, struct common *ret)
{
    const uint32_t length = READ(uint32_t, entry);
    const unsigned char *at = entry + 8;

    *ret = (struct common){.encoding = enc_absptr, .end = entry + 4 + length};
    if (length == 0xffffffff || READ(uint32_t, entry + 4) != 0)
        return false;
    const unsigned version = *at++;
    const char *letters = (const char *)at;
    at += strlen(letters) + 1;
    if (version != 1 && version != 3)
        return false;
    ret->code_align = read_uleb(&at);
    ret->data_align = read_sleb(&at);
    ret->return_column = version == 1 ? *at++ : (unsigned)read_uleb(&at);
    if (*letters == 'z') {
        const uint64_t size = read_uleb(&at);
        ret->program = at + size;
        ret->augmented = true;
        return read_augmentation(letters + 1, &at, ret) && at <= ret->program;
    }
    ret->program = at;
    return !*letters;
}

static void set_rule(struct gf_row *row, uint64_t column, enum gf_rule rule, int64_t at)
{
    if (column >= GF_REGISTERS)
        return; /* vectors and the like: nobody needs them to go on */
    row->rule[column] = (unsigned char)rule;
    row->at[column] = (int32_t)at;
}

struct machine {
    const struct common *common;
    struct gf_rows *rows;
    const unsigned char *at, *end;
    uintptr_t location, pc;
    unsigned depth;
};

static void set_expression(struct machine *m, enum gf_rule rule)
{
    const uint64_t column = read_uleb(&m->at);
    set_rule(&m->rows->now, column, rule, m->at - m->rows->expressions);
    const uint64_t length = read_uleb(&m->at);
    m->at += length;
}

static bool remember(struct machine *m)
{
    if (m->depth == GF_ARRAY_LEN(m->rows->kept))
        return false;
    m->rows->kept[m->depth++] = m->rows->now;
    return true;
}

static bool restore(struct machine *m)
{
    if (!m->depth)
        return false;
    m->rows->now = m->rows->kept[--m->depth];
    return true;
}

static void restore_column(struct machine *m, uint64_t column)
{
    if (column < GF_REGISTERS) {
        m->rows->now.rule[column] = m->rows->initial.rule[column];
        m->rows->now.at[column] = m->rows->initial.at[column];
    }
}

/* DW_CFA_* that set the CFA. */
static bool step_cfa(struct machine *m, unsigned code)
{
    struct gf_row *row = &m->rows->now;

    switch (code) {
    case 0x0c: /* def_cfa */
        row->cfa_register = (unsigned)read_uleb(&m->at);
        row->cfa_offset = (int64_t)read_uleb(&m->at);
        break;
    case 0x12: /* def_cfa_sf */
        row->cfa_register = (unsigned)read_uleb(&m->at);
        row->cfa_offset = read_sleb(&m->at) * m->common->data_align;
        break;
    case 0x0d: /* def_cfa_register */
        row->cfa_register = (unsigned)read_uleb(&m->at);
        break;
    case 0x0e: /* def_cfa_offset */
        row->cfa_offset = (int64_t)read_uleb(&m->at);
        break;
    case 0x13: /* def_cfa_offset_sf */
        row->cfa_offset = read_sleb(&m->at) * m->common->data_align;
        break;
    case 0x0f: { /* def_cfa_expression */
        row->cfa_expression = m->at;
        const uint64_t length = read_uleb(&m->at);
        m->at += length;
        return true;
    }
    default:
        return false;
    }
    row->cfa_expression = NULL;
    return row->cfa_register < GF_REGISTERS;
}

/* DW_CFA_* that set where a register is. */
static bool step_register(struct machine *m, unsigned code)
{
    struct gf_row *row = &m->rows->now;
    uint64_t column;

    switch (code) {
    case 0x05: /* offset_extended */
        column = read_uleb(&m->at);
        set_rule(row, column, gf_rule_offset, (int64_t)read_uleb(&m->at) * m->common->data_align);
        return true;
    case 0x11: /* offset_extended_sf */
        column = read_uleb(&m->at);
        set_rule(row, column, gf_rule_offset, read_sleb(&m->at) * m->common->data_align);
        return true;
    case 0x14: /* val_offset */
        column = read_uleb(&m->at);
        set_rule(row, column, gf_rule_value, (int64_t)read_uleb(&m->at) * m->common->data_align);
        return true;
    case 0x06: /* restore_extended */
        restore_column(m, read_uleb(&m->at));
        return true;
    case 0x07: /* undefined */
        set_rule(row, read_uleb(&m->at), gf_rule_undefined, 0);
        return true;
    case 0x08: /* same_value */
        set_rule(row, read_uleb(&m->at), gf_rule_same, 0);
        return true;
    case 0x09: /* register */
        column = read_uleb(&m->at);
        set_rule(row, column, gf_rule_register, (int64_t)read_uleb(&m->at));
        return true;
    case 0x10: /* expression */
        set_expression(m, gf_rule_expression);
        return true;
    case 0x16: /* val_expression */
        set_expression(m, gf_rule_value_expression);
        return true;
    default:
        return false;
    }
}

static bool step_rest(struct machine *m, unsigned code)
{
    switch (code) {
    case 0x00: /* nop */
    case 0x2d: /* aarch64: negate_ra_state; addresses are stripped anyway */
        return true;
    case 0x01: /* set_loc */
        return false;
    case 0x02: /* advance_loc1 */
        m->location += *m->at++ * m->common->code_align;
        return true;
    case 0x03:
        m->location += READ(uint16_t, m->at) * m->common->code_align;
        m->at += 2;
        return true;
    case 0x04:
        m->location += READ(uint32_t, m->at) * m->common->code_align;
        m->at += 4;
        return true;
    case 0x0a:
        return remember(m);
    case 0x0b:
        return restore(m);
    case 0x2e: /* GNU_args_size */
        read_uleb(&m->at);
        return true;
    default:
        return step_cfa(m, code) || step_register(m, code);
    }
}

static bool execute(struct machine *m)
{
    while (m->at < m->end && m->location <= m->pc) {
        const unsigned byte = *m->at++;
        const unsigned low = byte & 0x3f;
        switch (byte >> 6) {
        case 1: /* advance_loc */
            m->location += low * m->common->code_align;
            break;
        case 2: /* offset */
            set_rule(&m->rows->now, low, gf_rule_offset,
                     (int64_t)read_uleb(&m->at) * m->common->data_align);
            break;
        case 3: /* restore */
            restore_column(m, low);
            break;
        default:
            if (!step_rest(m, byte))
                return false;
        }
    }
    return true;
}

/* The entry of the sorted table at or before pc: pairs of distances from the header. */
static const unsigned char *search(const unsigned char *header, uintptr_t pc)
{
    const unsigned char *at = header + 4;
    uint64_t skipped, count;

    if (header[0] != 1 || header[3] != (enc_datarel | enc_sdata4) ||
        !read_plain(&at, header[1], &skipped) || !read_plain(&at, header[2], &count))
        return NULL;
    const int64_t wanted = (int64_t)(pc - (uintptr_t)header);
    uint64_t low = 0, high = count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (READ(int32_t, at + 8 * middle) <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? header + READ(int32_t, at + 8 * (low - 1) + 4) : NULL;
}

bool gf_dwarf_find(const unsigned char *header, uintptr_t pc, struct gf_rows *ret)
{
    const unsigned char *entry = search(header, pc);
    struct common common;
    uint64_t start, length;

    if (!entry || READ(uint32_t, entry) == 0xffffffff ||
        !read_common(entry + 4 - READ(uint32_t, entry + 4), &common))
        return false;
    const unsigned char *at = entry + 8, *end = entry + 4 + READ(uint32_t, entry);
    if (!read_pointer(&at, common.encoding, &start) || !read_plain(&at, common.encoding, &length) ||
        pc - start >= length)
        return false;
    if (common.augmented) {
        const uint64_t size = read_uleb(&at);
        at += size;
    }
    memset(ret, 0, sizeof(*ret));
    ret->return_column = common.return_column;
    ret->signal = common.signal;
    ret->expressions = (unsigned char *)(uintptr_t)common.program;
    struct machine first = {&common, ret, common.program, common.end, start, UINTPTR_MAX, 0};
    if (common.return_column >= GF_REGISTERS || !execute(&first))
        return false;
    ret->initial = ret->now;
    struct machine m = {&common, ret, at, end, start, pc, 0};
    return execute(&m);
}

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

static bool push_constant(struct stack *stack, unsigned code, const unsigned char **at)
{
    if (code >= 0x30 && code <= 0x4f)
        return push(stack, code - 0x30);
    switch (code) {
    case 0x08:
        return push(stack, *(*at)++);
    case 0x09:
        return push(stack, (uintptr_t)(intptr_t)(signed char)*(*at)++);
    case 0x10:
        return push(stack, read_uleb(at));
    case 0x11:
        return push(stack, (uintptr_t)read_sleb(at));
    default:
        return false;
    }
}

bool gf_dwarf_evaluate(const unsigned char *expression, const uintptr_t *registers,
                       bool (*read)(void *closure, uintptr_t address, uintptr_t *ret),
                       void *closure, uintptr_t first, bool has_first, uintptr_t *ret)
{
    const unsigned char *at = expression;
    const uint64_t length = read_uleb(&at);
    const unsigned char *end = at + length;
    struct stack stack = {.depth = 0};

    if (has_first)
        push(&stack, first);
    while (at < end) {
        const unsigned code = *at++;
        if (code >= 0x70 && code <= 0x8f) { /* breg */
            if (code - 0x70 >= GF_REGISTERS ||
                !push(&stack, registers[code - 0x70] + (uintptr_t)read_sleb(&at)))
                return false;
        } else if (code == 0x06) { /* deref */
            if (!stack.depth || !read(closure, stack.value[stack.depth - 1],
                                      &stack.value[stack.depth - 1]))
                return false;
        } else if (code == 0x23) { /* plus_uconst */
            if (!stack.depth)
                return false;
            stack.value[stack.depth - 1] += read_uleb(&at);
        } else if (!push_constant(&stack, code, &at) && !combine(&stack, code)) {
            return false;
        }
    }
    if (!stack.depth)
        return false;
    *ret = stack.value[stack.depth - 1];
    return true;
}
