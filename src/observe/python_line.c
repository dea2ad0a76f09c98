/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/python_line.h"

#include "observe/peek.h"

/* The table, read by pieces. */
struct reader {
    const struct gf_python_code *code;
    size_t at, start, held;
    bool failed;
    unsigned char buf[256];
};

static bool is_done(const struct reader *r)
{
    return r->failed || r->at >= r->code->size;
}

static unsigned peek_byte(struct reader *r)
{
    if (is_done(r))
        return 0;
    if (r->at < r->start || r->at >= r->start + r->held) {
        r->start = r->at;
        r->held = gf_peek_some(r->code->data + r->at, r->buf,
                               gf_min(r->code->size - r->at, sizeof(r->buf)));
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

static int as_signed(unsigned byte)
{
    return byte < 128 ? (int)byte : (int)byte - 256;
}

bool gf_python_line_lnotab(const struct gf_python_code *code, size_t at, int *ret)
{
    struct reader r = {.code = code};
    size_t address = 0;

    *ret = code->first_line;
    while (!is_done(&r)) {
        address += next_byte(&r);
        if (address > at)
            break;
        *ret += as_signed(next_byte(&r));
    }
    return !r.failed;
}

bool gf_python_line_ranges(const struct gf_python_code *code, size_t at, int *ret)
{
    struct reader r = {.code = code};
    size_t end = 0;
    int line = code->first_line;

    while (!is_done(&r)) {
        const size_t start = end;
        end += next_byte(&r);
        const int delta = as_signed(next_byte(&r));
        if (delta != -128)
            line += delta;
        if (at >= start && at < end) {
            *ret = line;
            return delta != -128 && !r.failed;
        }
    }
    return false;
}

/* Six bits a byte, the lowest first. */
static unsigned next_number(struct reader *r)
{
    unsigned value = 0, shift = 0, byte;
    do {
        byte = next_byte(r);
        if (shift < 32)
            value |= (byte & 0x3f) << shift;
        shift += 6;
    } while ((byte & 0x40) && !is_done(r));
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

bool gf_python_line_locations(const struct gf_python_code *code, size_t at, int *ret)
{
    struct reader r = {.code = code};
    size_t end = 0;
    int line = code->first_line;

    while (!is_done(&r)) {
        const unsigned first = next_byte(&r), kind = first >> 3 & 15;
        end += (size_t)((first & 7) + 1) * 2;
        line += line_delta(&r, kind);
        if (at < end) {
            *ret = line;
            return kind != 15 && !r.failed;
        }
        /* Only the first byte of an entry has the upper bit. */
        while (!is_done(&r) && !(peek_byte(&r) & 0x80))
            r.at++;
    }
    return false;
}
