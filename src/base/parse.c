/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <strings.h>

bool gf_same_start(const char *a, const char *b, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (gf_lower(a[i]) != gf_lower(b[i]) || !a[i])
            return false;
    return true;
}

bool gf_same_word(const char *a, const char *b)
{
    const size_t length = strlen(a);
    return strlen(b) == length && gf_same_start(a, b, length);
}

/* Reads the digits at *at, and moves *at behind them. Returns 0 or -errno. */
static int parse_digits(const char **at, uint64_t *ret)
{
    const char *const from = *at;

    for (*ret = 0; **at >= '0' && **at <= '9'; (*at)++)
        if (__builtin_mul_overflow(*ret, 10, ret) ||
            __builtin_add_overflow(*ret, (uint64_t)(**at - '0'), ret))
            return -ERANGE;
    return *at == from ? -EINVAL : 0;
}

int gf_parse_u64(const char *text, uint64_t *ret)
{
    uint64_t value;
    const int error = parse_digits(&text, &value);

    if (error || *text)
        return error ? error : -EINVAL;
    *ret = value;
    return 0;
}

int gf_parse_size(const char *text, uint64_t *ret)
{
    static const char units[] = "KMGT";
    uint64_t value;
    const char *p = text;
    const int error = parse_digits(&p, &value);
    if (error)
        return error;
    if (*p) {
        const char *unit = strchr(units, *p >= 'a' ? *p - 'a' + 'A' : *p);
        if (!unit)
            return strcasecmp(p, "b") ? -EINVAL : (*ret = value, 0);
        const unsigned shift = 10 * (unsigned)(unit - units + 1);
        if (value > UINT64_MAX >> shift)
            return -ERANGE;
        value <<= shift;
        p++;
        if (*p && strcasecmp(p, "b") != 0 && strcasecmp(p, "ib") != 0)
            return -EINVAL;
    }
    *ret = value;
    return 0;
}

#define LENGTH_MAX 48

static bool are_swapped(const char *a, const char *b)
{
    return gf_lower(a[0]) == gf_lower(b[1]) && gf_lower(a[1]) == gf_lower(b[0]);
}

/*
 * Returns the optimal string alignment distance of two words; LENGTH_MAX if a word is longer than
 * LENGTH_MAX.
 */
static unsigned edit_distance(const char *a, const char *b)
{
    const size_t la = strlen(a), lb = strlen(b);
    unsigned rows[3][LENGTH_MAX + 1];

    if (la > LENGTH_MAX || lb > LENGTH_MAX)
        return LENGTH_MAX;
    for (size_t j = 0; j <= lb; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= la; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= lb; j++) {
            const unsigned change = above[j - 1] + (gf_lower(a[i - 1]) != gf_lower(b[j - 1]));
            row[j] = gf_min(gf_min(above[j] + 1, row[j - 1] + 1), change);
            if (i > 1 && j > 1 && are_swapped(&a[i - 2], &b[j - 2]))
                row[j] = gf_min(row[j], above2[j - 2] + 1);
        }
    }
    return rows[la % 3][lb];
}

void gf_nearest_word_begin(struct gf_nearest_word *search, const char *wanted)
{
    const size_t length = strlen(wanted);
    const unsigned most = length <= 4 ? 1 : (unsigned)gf_min(3, 1 + length / 4);

    *search = (struct gf_nearest_word){.wanted = wanted, .edits = most + 1};
}

void gf_nearest_word_try(struct gf_nearest_word *search, const char *candidate, const char *result)
{
    const unsigned edits = edit_distance(search->wanted, candidate);

    if (edits < search->edits) {
        search->edits = edits;
        search->found = result;
    }
}
