/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include <errno.h>
#include <string.h>
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

static const char *parse_digits(const char *text, uint64_t *ret, int *error)
{
    uint64_t value = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)) {
            *error = -ERANGE;
            return NULL;
        }
    }
    *error = p == text ? -EINVAL : 0;
    *ret = value;
    return *error ? NULL : p;
}

int gf_parse_u64(const char *text, uint64_t *ret)
{
    uint64_t value;
    int error;
    const char *end = parse_digits(text, &value, &error);
    if (!end)
        return error;
    if (*end)
        return -EINVAL;
    *ret = value;
    return 0;
}

int gf_parse_size(const char *text, uint64_t *ret)
{
    static const char units[] = "KMGT";
    uint64_t value;
    int error;
    const char *p = parse_digits(text, &value, &error);
    if (!p)
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
