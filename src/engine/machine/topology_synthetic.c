/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/machine/topology_synthetic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool begins_count(const char *text, const char *at)
{
    return at == text || strchr(" :[\t\n\v\f\r", at[-1]);
}

/*
 * Whether a number in parentheses is a size, as in "memory=8GB". Otherwise it is an index, as in
 * "indexes=0,2,1,3" or "indexes=2*2:1*2". at: the number's first character.
 */
static bool begins_size(const char *text, const char *at)
{
    static const char key[] = "indexes";
    const size_t length = sizeof(key) - 1;

    if (at[-1] != '=')
        return false;
    return (size_t)(at - text) <= length || strncmp(at - 1 - length, key, length) != 0;
}

/*
 * The number of objects is the product of the counts of all levels. For example, "Package:2
 * [NUMANode(memory=8GB)] Core:4 PU:2(indexes=...)" has 16 objects. Negative numbers are refused,
 * because hwloc reads them as very large ones.
 */
bool gf_topology_synthetic_is_sound(const char *text, uint64_t most)
{
    uint64_t objects = 1;
    unsigned depth = 0;

    for (const char *at = text; *at; at++) {
        depth += *at == '(';
        depth -= *at == ')' && depth;
        if ((*at == '-' || *at == '+') && at[1] >= '0' && at[1] <= '9')
            return false;
        if (*at < '0' || *at > '9')
            continue;
        const bool is_count = !depth && begins_count(text, at);
        const bool is_index = depth && !begins_size(text, at);
        char *end;
        const uint64_t number = strtoull(at, &end, 0);
        if ((is_count || is_index) && number > most)
            return false;
        if (is_count && (objects *= gf_max(number, (uint64_t)1)) > most)
            return false;
        at = end - 1;
    }
    return true;
}
