/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pystack/pystack_line.h"

/* Reads the bytes of a line table through a small buffer. */
struct reader {
    const struct gf_pystack_table *table;
    size_t at, start, held;
    bool failed;
    unsigned char buf[256];
};

static bool is_at_end(const struct reader *r)
{
    return r->failed || r->at >= r->table->size;
}

static unsigned peek_byte(struct reader *r)
{
    const struct gf_pystack_memory *memory = r->table->memory;

    if (is_at_end(r))
        return 0;
    if (r->at < r->start || r->at >= r->start + r->held) {
        r->start = r->at;
        r->held = memory->read(memory->closure, r->table->data + r->at, r->buf,
                               gf_min(r->table->size - r->at, sizeof(r->buf)));
        if (!r->held) {
            r->failed = true;
            return 0;
        }
    }
    return r->buf[r->at - r->start];
}

static unsigned next_byte(struct reader *r)
{
    const unsigned byte = peek_byte(r);
    r->at++;
    return byte;
}

static int sign_extend(unsigned byte)
{
    return byte < 128 ? (int)byte : (int)byte - 256;
}

bool gf_pystack_line_lnotab(const struct gf_pystack_table *table, size_t at, int *ret)
{
    struct reader r = {.table = table};
    size_t address = 0;

    *ret = table->first_line;
    while (!is_at_end(&r)) {
        address += next_byte(&r);
        if (address > at)
            break;
        *ret += sign_extend(next_byte(&r));
    }
    return !r.failed;
}

bool gf_pystack_line_ranges(const struct gf_pystack_table *table, size_t at, int *ret)
{
    struct reader r = {.table = table};
    size_t end = 0;
    int line = table->first_line;

    while (!is_at_end(&r)) {
        const size_t start = end;
        end += next_byte(&r);
        const int delta = sign_extend(next_byte(&r));
        if (delta != -128)
            line += delta;
        if (at >= start && at < end) {
            *ret = line;
            return delta != -128 && !r.failed;
        }
    }
    return false;
}

/* Reads a number that is encoded with six bits per byte, the lowest bits first. */
static unsigned next_number(struct reader *r)
{
    unsigned value = 0, shift = 0, byte;
    do {
        byte = next_byte(r);
        if (shift < 32)
            value |= (byte & 0x3f) << shift;
        shift += 6;
    } while ((byte & 0x40) && !is_at_end(r));
    return value;
}

static int line_delta(struct reader *r, unsigned kind)
{
    if (kind == 13 || kind == 14) {
        const unsigned value = next_number(r);
        return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
    }
    return kind >= 10 && kind <= 12 ? (int)kind - 10 : 0;
}

bool gf_pystack_line_locations(const struct gf_pystack_table *table, size_t at, int *ret)
{
    struct reader r = {.table = table};
    size_t end = 0;
    int line = table->first_line;

    while (!is_at_end(&r)) {
        const unsigned first = next_byte(&r), kind = first >> 3 & 15;
        end += (size_t)((first & 7) + 1) * 2;
        line += line_delta(&r, kind);
        if (at < end) {
            *ret = line;
            return kind != 15 && !r.failed;
        }
        /* Skip to the next entry. Only the first byte of an entry has its highest bit set. */
        while (!is_at_end(&r) && !(peek_byte(&r) & 0x80))
            r.at++;
    }
    return false;
}
