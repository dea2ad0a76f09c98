/* SPDX-License-Identifier: Apache-2.0 */
#include "config/suggest.h"

#include "base/parse.h"
#include "config/names.h"
#include "config/options.h"

#include <string.h>

#define LONGEST 48

bool gf_name_is_internal(const char *name)
{
    /* Kubernetes sets these in every pod beside a service that is called gpufeed. */
    static const char *const service[] = {"GPUFEED_SERVICE_", "GPUFEED_PORT_"};

    for (size_t i = 0; i < GF_ARRAY_LEN(service); i++)
        if (strncmp(name, service[i], strlen(service[i])) == 0)
            return true;
    return strcmp(name, GF_NAME_BOUND) == 0 || strcmp(name, "GPUFEED_PORT") == 0;
}

static const char *without_prefix(const char *name)
{
    static const char prefix[] = "GPUFEED";
    if (gf_same_start(name, prefix, sizeof(prefix) - 1))
        name += sizeof(prefix) - 1;
    return *name == '_' ? name + 1 : name;
}

static bool are_swapped(const char *a, const char *b)
{
    return gf_lower(a[0]) == gf_lower(b[1]) && gf_lower(a[1]) == gf_lower(b[0]);
}

unsigned gf_edits(const char *a, const char *b)
{
    const size_t la = strlen(a), lb = strlen(b);
    unsigned rows[3][LONGEST + 1];

    if (la > LONGEST || lb > LONGEST)
        return LONGEST;
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

/* What other tools call their main switch; NULL for all else. */
static const char *main_switch(const char *wanted)
{
    static const struct {
        const char *word, *meant;
    } words[] = {{"disable", "GPUFEED=off"}, {"disabled", "GPUFEED=off"}, {"off", "GPUFEED=off"},
                 {"enable", "GPUFEED=on"},   {"enabled", "GPUFEED=on"},   {"on", "GPUFEED=on"}};

    for (size_t i = 0; i < GF_ARRAY_LEN(words); i++)
        if (gf_same_word(words[i].word, wanted))
            return words[i].meant;
    return NULL;
}

/* More edits than this and it is another word. */
static unsigned most_edits(const char *word)
{
    return (unsigned)gf_min(3, 1 + strlen(word) / 4);
}

const char *gf_suggest(const char *name)
{
    const char *wanted = without_prefix(name), *meant = main_switch(wanted);
    unsigned best = most_edits(wanted) + 1;
    const char *found = NULL;

    if (meant)
        return meant;
    for (size_t i = 0; i < gf_option_row_count; i++) {
        const char *candidate = without_prefix(gf_option_rows[i].name);
        /* Or its flag in capitals: --mode sets GPUFEED. */
        if (gf_same_word(name, gf_option_rows[i].name) || gf_same_word(wanted, gf_option_rows[i].token))
            return gf_option_rows[i].name;
        if (!*candidate)
            continue; /* GPUFEED itself: a few edits away from every short name */
        const unsigned edits = gf_edits(wanted, candidate);
        if (edits < best) {
            best = edits;
            found = gf_option_rows[i].name;
        }
    }
    return found;
}

/* Other words for off, some of them near to what is on ("none" to "node"). */
static bool means_off(const char *value)
{
    static const char *const words[] = {"none", "never", "disable", "disabled"};

    for (size_t i = 0; i < GF_ARRAY_LEN(words); i++)
        if (gf_same_word(words[i], value))
            return true;
    return false;
}

const char *gf_suggest_value(const struct gf_option_row *row, const char *value)
{
    static const char *const of_sizes[] = {"auto", NULL};
    const char *const *word = row->kind == gf_option_size ? of_sizes : row->choices;
    const size_t length = strlen(value);
    const bool off = means_off(value);
    unsigned best = most_edits(value) + 1;
    const char *found = NULL;

    for (; word && *word && length > 1; word++) {
        const bool meant = gf_same_start(*word, value, length) || (off && strcmp(*word, "off") == 0);
        const unsigned edits = meant ? 0 : gf_edits(value, *word);
        if (edits < best) {
            best = edits;
            found = *word;
        }
    }
    return found;
}
