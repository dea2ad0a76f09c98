/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest_word.h"

#include "base/parse.h"

#include <string.h>

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
