/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpus.h"

#include "base/fmt.h"

bool gf_bits_test(const uint64_t *word, size_t n, unsigned bit)
{
    return bit < n * 64 && (word[bit / 64] >> (bit % 64) & 1);
}

void gf_bits_set(uint64_t *word, size_t n, unsigned bit)
{
    if (bit < n * 64)
        word[bit / 64] |= UINT64_C(1) << (bit % 64);
}

unsigned gf_bits_count(const uint64_t *word, size_t n)
{
    unsigned count = 0;
    for (size_t i = 0; i < n; i++)
        count += (unsigned)__builtin_popcountll(word[i]);
    return count;
}

int gf_bits_next(const uint64_t *word, size_t n, unsigned from)
{
    for (size_t i = from / 64; i < n; i++) {
        uint64_t rest = word[i];
        if (i == from / 64)
            rest &= ~UINT64_C(0) << (from % 64);
        if (rest)
            return (int)(i * 64) + __builtin_ctzll(rest);
    }
    return -1;
}

bool gf_bits_within(const uint64_t *inner, const uint64_t *outer, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (inner[i] & ~outer[i])
            return false;
    return true;
}

bool gf_bits_meet(const uint64_t *a, const uint64_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] & b[i])
            return true;
    return false;
}

void gf_bits_and(uint64_t *ret, const uint64_t *a, const uint64_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = a[i] & b[i];
}

void gf_bits_or(uint64_t *ret, const uint64_t *a, const uint64_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = a[i] | b[i];
}

/* Reads the number at *at, and moves *at behind it. Returns 0 or -errno. */
static int parse_bit(const char **at, unsigned limit, unsigned *ret)
{
    const char *const from = *at;

    for (*ret = 0; **at >= '0' && **at <= '9'; (*at)++) {
        *ret = *ret * 10 + (unsigned)(**at - '0');
        if (*ret >= limit)
            return -ERANGE;
    }
    return *at == from ? -EINVAL : 0;
}

static bool at_end(const char *p)
{
    return !p[strspn(p, " \t\n")];
}

int gf_bits_parse(const char *text, uint64_t *ret, size_t n)
{
    uint64_t bits[GF_CPUS_MAX / 64] = {0};
    const unsigned limit = (unsigned)n * 64;

    if (n > GF_ARRAY_LEN(bits))
        return -ERANGE;
    for (const char *p = text; !(p == text && at_end(p));) {
        unsigned first, last;
        int error = parse_bit(&p, limit, &first);
        last = first;
        if (!error && *p == '-') {
            p++;
            error = parse_bit(&p, limit, &last);
        }
        if (error)
            return error;
        if (last < first)
            return -EINVAL;
        for (unsigned bit = first; bit <= last; bit++)
            gf_bits_set(bits, n, bit);
        if (*p == ',') {
            p++;
            continue;
        }
        if (!at_end(p))
            return -EINVAL;
        break;
    }
    memcpy(ret, bits, n * sizeof(*ret));
    return 0;
}

/*
 * Shortens the text to the items that fit before ",...", and appends ",...". No number or range is
 * split.
 */
static char *cut_off(char *buf, size_t at, size_t size)
{
    if (size <= sizeof("..."))
        return buf;
    if (at > 0)
        buf[at++] = ',';
    while (at > size - sizeof("...") || (at > 0 && buf[at - 1] != ','))
        at--;
    memcpy(buf + at, "...", sizeof("..."));
    return buf;
}

char *gf_bits_format(const uint64_t *word, size_t n, char *buf, size_t size)
{
    size_t at = 0;

    if (size == 0)
        return buf;
    buf[0] = '\0';
    for (int first = gf_bits_next(word, n, 0); first >= 0;) {
        unsigned last = (unsigned)first;
        while (gf_bits_test(word, n, last + 1))
            last++;
        char range[32];
        gf_fmt(range, sizeof(range), last > (unsigned)first ? "%s%u-%u" : "%s%u", at ? "," : "",
               (unsigned)first, last);
        size_t length = strlen(range);
        if (at + length >= size)
            return cut_off(buf, at, size);
        memcpy(buf + at, range, length + 1);
        at += length;
        first = gf_bits_next(word, n, last + 1);
    }
    return buf;
}
