/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/trace/dwarf.h"

/*
 * Reads numbers of an unwind table. A read beyond the table's end returns zeros and sets `failed`,
 * which the caller checks at the end.
 */
struct gf_bytes {
    const unsigned char *at, *end;
    bool failed;
};

static void gf_bytes_take(struct gf_bytes *bytes, void *ret, size_t size)
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

static void gf_bytes_skip(struct gf_bytes *bytes, uint64_t size)
{
    if (size > (size_t)(bytes->end - bytes->at)) {
        bytes->failed = true;
        size = (uint64_t)(bytes->end - bytes->at);
    }
    bytes->at += size;
}

#define GF_BYTES_NUMBER(name, type)                                                                \
    static type name(struct gf_bytes *bytes)                                                       \
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
static uint64_t gf_bytes_leb(struct gf_bytes *bytes, bool is_signed)
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

static uint64_t gf_bytes_uleb(struct gf_bytes *bytes)
{
    return gf_bytes_leb(bytes, false);
}

enum {
    enc_absptr = 0x00,
    enc_udata2 = 0x02,
    enc_udata4 = 0x03,
    enc_udata8 = 0x04,
    enc_sdata2 = 0x0a,
    enc_sdata4 = 0x0b,
    enc_sdata8 = 0x0c,
    enc_pcrel = 0x10,
    enc_datarel = 0x30,
    enc_indirect = 0x80
};

/* Reads an encoded pointer without adding its base. */
static bool read_offset(struct gf_bytes *bytes, unsigned encoding, uint64_t *ret)
{
    switch (encoding & 0x0f) {
    case enc_absptr:
    case enc_udata8:
    case enc_sdata8:
        *ret = gf_bytes_u64(bytes);
        break;
    case enc_udata4:
        *ret = gf_bytes_u32(bytes);
        break;
    case enc_sdata4:
        *ret = (uint64_t)(int64_t)(int32_t)gf_bytes_u32(bytes);
        break;
    case enc_udata2:
        *ret = gf_bytes_u16(bytes);
        break;
    case enc_sdata2:
        *ret = (uint64_t)(int64_t)(int16_t)gf_bytes_u16(bytes);
        break;
    default:
        return false;
    }
    return !bytes->failed;
}

static bool read_encoded(struct gf_bytes *bytes, unsigned encoding, uint64_t *ret)
{
    const uintptr_t from = (uintptr_t)bytes->at;
    if ((encoding & 0x70 & ~enc_pcrel) || (encoding & enc_indirect) ||
        !read_offset(bytes, encoding, ret))
        return false;
    if (encoding & enc_pcrel)
        *ret += from;
    return true;
}

/*
 * Finds the contents of an entry, which follow the entry's length. Returns false if they extend
 * beyond the table.
 */
static bool open_entry(const struct gf_table *table, const unsigned char *entry,
                       struct gf_bytes *ret)
{
    if (entry < table->start || entry >= table->end)
        return false;
    *ret = (struct gf_bytes){entry, table->end, false};
    const uint32_t length = gf_bytes_u32(ret);
    if (length == UINT32_MAX || length > (size_t)(ret->end - ret->at))
        return false;
    ret->end = ret->at + length;
    return !ret->failed;
}

struct common {
    uint64_t code_align;
    int64_t data_align;
    unsigned return_column;
    unsigned encoding;
    bool augmented, signal;
    struct gf_bytes program;
};

static bool read_augmentation(const char *letters, struct gf_bytes *bytes, struct common *ret)
{
    uint64_t skipped;

    for (; *letters; letters++) {
        switch (*letters) {
        case 'R':
            ret->encoding = gf_bytes_u8(bytes);
            break;
        case 'L':
            gf_bytes_u8(bytes);
            break;
        case 'P':
            if (!read_offset(bytes, gf_bytes_u8(bytes), &skipped))
                return false;
            break;
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

static bool read_common(const struct gf_table *table, const unsigned char *entry,
                        struct common *ret)
{
    struct gf_bytes bytes;

    *ret = (struct common){.encoding = enc_absptr};
    if (!open_entry(table, entry, &bytes) || gf_bytes_u32(&bytes) != 0)
        return false;
    const unsigned version = gf_bytes_u8(&bytes);
    const char *letters = (const char *)bytes.at;
    while (gf_bytes_u8(&bytes))
        ;
    if ((version != 1 && version != 3) || bytes.failed)
        return false;
    ret->code_align = gf_bytes_uleb(&bytes);
    ret->data_align = (int64_t)gf_bytes_leb(&bytes, true);
    ret->return_column = version == 1 ? gf_bytes_u8(&bytes) : (unsigned)gf_bytes_uleb(&bytes);
    if (*letters == 'z') {
        const uint64_t size = gf_bytes_uleb(&bytes);
        ret->program = bytes;
        gf_bytes_skip(&ret->program, size);
        bytes.end = ret->program.at;
        ret->augmented = true;
        return read_augmentation(letters + 1, &bytes, ret) && !bytes.failed && !ret->program.failed;
    }
    ret->program = bytes;
    return !*letters && !bytes.failed;
}

struct machine {
    const struct gf_table *table;
    const struct common *common;
    struct gf_rows *rows;
    struct gf_bytes bytes;
    uintptr_t location, pc;
    unsigned depth;
};

static int64_t scale_offset(const struct machine *m, uint64_t factor)
{
    return (int64_t)(factor * (uint64_t)m->common->data_align);
}

static void set_rule(struct machine *m, uint64_t column, enum gf_rule rule, int64_t at)
{
    if (column >= GF_REGISTERS)
        return; /* other registers, such as vector registers, are not needed for unwinding */
    if (at != (int32_t)at || (rule == gf_rule_register && (uint64_t)at >= GF_REGISTERS))
        m->bytes.failed = true;
    m->rows->now.rule[column] = (unsigned char)rule;
    m->rows->now.at[column] = (int32_t)at;
}

static void set_expression(struct machine *m, enum gf_rule rule)
{
    const uint64_t column = gf_bytes_uleb(&m->bytes);
    set_rule(m, column, rule, m->bytes.at - m->table->start);
    gf_bytes_skip(&m->bytes, gf_bytes_uleb(&m->bytes));
}

static void restore_column(struct machine *m, uint64_t column)
{
    if (column < GF_REGISTERS) {
        m->rows->now.rule[column] = m->rows->initial.rule[column];
        m->rows->now.at[column] = m->rows->initial.at[column];
    }
}

/* Executes a DW_CFA_* operation that defines the CFA. */
static bool step_cfa(struct machine *m, unsigned code)
{
    struct gf_row *row = &m->rows->now;
    uint64_t column;

    switch (code) {
    case 0x0c: /* def_cfa */
        column = gf_bytes_uleb(&m->bytes);
        row->cfa_offset = (int64_t)gf_bytes_uleb(&m->bytes);
        break;
    case 0x12: /* def_cfa_sf */
        column = gf_bytes_uleb(&m->bytes);
        row->cfa_offset = scale_offset(m, gf_bytes_leb(&m->bytes, true));
        break;
    case 0x0d: /* def_cfa_register */
        column = gf_bytes_uleb(&m->bytes);
        break;
    case 0x0e: /* def_cfa_offset: as in libgcc, does not replace an expression */
        row->cfa_offset = (int64_t)gf_bytes_uleb(&m->bytes);
        return true;
    case 0x13: /* def_cfa_offset_sf */
        row->cfa_offset = scale_offset(m, gf_bytes_leb(&m->bytes, true));
        return true;
    case 0x0f: /* def_cfa_expression */
        row->cfa_expression = m->bytes.at;
        gf_bytes_skip(&m->bytes, gf_bytes_uleb(&m->bytes));
        return true;
    default:
        return false;
    }
    row->cfa_expression = NULL;
    if (column >= GF_REGISTERS)
        return false;
    row->cfa_register = (unsigned)column;
    return true;
}

/* Executes a DW_CFA_* operation that defines where a register is saved. */
static bool step_register(struct machine *m, unsigned code)
{
    uint64_t column;

    switch (code) {
    case 0x05: /* offset_extended */
    case 0x11: /* offset_extended_sf */
        column = gf_bytes_uleb(&m->bytes);
        set_rule(m, column, gf_rule_offset, scale_offset(m, gf_bytes_leb(&m->bytes, code == 0x11)));
        return true;
    case 0x14: /* val_offset */
        column = gf_bytes_uleb(&m->bytes);
        set_rule(m, column, gf_rule_value, scale_offset(m, gf_bytes_uleb(&m->bytes)));
        return true;
    case 0x06: /* restore_extended */
        restore_column(m, gf_bytes_uleb(&m->bytes));
        return true;
    case 0x07: /* undefined */
        set_rule(m, gf_bytes_uleb(&m->bytes), gf_rule_undefined, 0);
        return true;
    case 0x08: /* same_value */
        set_rule(m, gf_bytes_uleb(&m->bytes), gf_rule_same, 0);
        return true;
    case 0x09: /* register */
        column = gf_bytes_uleb(&m->bytes);
        set_rule(m, column, gf_rule_register, (int64_t)gf_bytes_uleb(&m->bytes));
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
    /* negate_ra_state on aarch64: ignored, because gf_dwarf_strip removes signatures anyway */
    case 0x2d:
        return true;
    case 0x01: /* set_loc */
        return false;
    case 0x02: /* advance_loc1 */
        m->location += gf_bytes_u8(&m->bytes) * m->common->code_align;
        return true;
    case 0x03:
        m->location += gf_bytes_u16(&m->bytes) * m->common->code_align;
        return true;
    case 0x04:
        m->location += gf_bytes_u32(&m->bytes) * m->common->code_align;
        return true;
    case 0x0a: /* remember_state */
        if (m->depth == GF_ARRAY_LEN(m->rows->kept))
            return false;
        m->rows->kept[m->depth++] = m->rows->now;
        return true;
    case 0x0b: /* restore_state */
        if (!m->depth)
            return false;
        m->rows->now = m->rows->kept[--m->depth];
        return true;
    case 0x2e: /* GNU_args_size */
        gf_bytes_uleb(&m->bytes);
        return true;
    default:
        return step_cfa(m, code) || step_register(m, code);
    }
}

static bool execute_program(struct machine *m)
{
    while (m->bytes.at < m->bytes.end && m->location <= m->pc) {
        const unsigned byte = gf_bytes_u8(&m->bytes);
        const unsigned low = byte & 0x3f;
        switch (byte >> 6) {
        case 1: /* advance_loc */
            m->location += low * m->common->code_align;
            break;
        case 2: /* offset */
            set_rule(m, low, gf_rule_offset, scale_offset(m, gf_bytes_uleb(&m->bytes)));
            break;
        case 3: /* restore */
            restore_column(m, low);
            break;
        default:
            if (!step_rest(m, byte))
                return false;
        }
    }
    return !m->bytes.failed;
}

/*
 * Finds the last entry of the sorted table whose code starts at or before pc. The addresses in the
 * table are relative to the header.
 */
static const unsigned char *search_table(const struct gf_table *table, uintptr_t pc)
{
    const unsigned char *header = table->header;
    uint64_t skipped, count;

    if (header < table->start || header >= table->end || table->end - header < 4)
        return NULL;
    struct gf_bytes bytes = {header + 4, table->end, false};
    if (header[0] != 1 || header[3] != (enc_datarel | enc_sdata4) ||
        !read_offset(&bytes, header[1], &skipped) || !read_offset(&bytes, header[2], &count) ||
        count > (size_t)(bytes.end - bytes.at) / 8)
        return NULL;
    const int64_t wanted = (int64_t)(pc - (uintptr_t)header);
    uint64_t low = 0, high = count;
    int32_t at;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        memcpy(&at, bytes.at + 8 * middle, sizeof(at));
        if (at <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return NULL;
    memcpy(&at, bytes.at + 8 * (low - 1) + 4, sizeof(at));
    return at >= table->start - header && at < table->end - header ? header + at : NULL;
}

bool gf_dwarf_find(const struct gf_table *table, uintptr_t pc, struct gf_rows *ret)
{
    const unsigned char *entry = search_table(table, pc);
    struct gf_bytes bytes;
    struct common common;
    uint64_t start, length;

    if (!entry || !open_entry(table, entry, &bytes))
        return false;
    const unsigned char *back = bytes.at;
    const uint32_t distance = gf_bytes_u32(&bytes);
    if (bytes.failed || distance > (size_t)(back - table->start) ||
        !read_common(table, back - distance, &common) ||
        !read_encoded(&bytes, common.encoding, &start) ||
        !read_offset(&bytes, common.encoding, &length) || pc - start >= length)
        return false;
    if (common.augmented)
        gf_bytes_skip(&bytes, gf_bytes_uleb(&bytes));
    memset(ret, 0, sizeof(*ret));
    ret->return_column = common.return_column;
    ret->signal = common.signal;
    struct machine first = {table, &common, ret, common.program, start, UINTPTR_MAX, 0};
    if (common.return_column >= GF_REGISTERS || bytes.failed || !execute_program(&first))
        return false;
    ret->initial = ret->now;
    struct machine m = {table, &common, ret, bytes, start, pc, 0};
    return execute_program(&m);
}

/* Applies a row of the table: its rules, and the DWARF expressions that its rules use. */

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
        return push_value(stack, gf_bytes_leb(bytes, true));
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
                !push_value(&stack, registers[code - 0x70] + gf_bytes_leb(&bytes, true)))
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
