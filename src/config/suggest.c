/* SPDX-License-Identifier: Apache-2.0 */
#include "config/suggest.h"

#include "base/nearest_word.h"
#include "base/parse.h"

#include <string.h>

static const char *without_prefix(const char *name)
{
    static const char prefix[] = "GPUFEED";
    if (gf_same_start(name, prefix, sizeof(prefix) - 1))
        name += sizeof(prefix) - 1;
    return *name == '_' ? name + 1 : name;
}

/*
 * Returns the setting of GPUFEED for a word such as "disable": "GPUFEED=off". Returns NULL for
 * other words.
 */
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

const char *gf_suggest_name(const char *name)
{
    const char *wanted = without_prefix(name), *meant = main_switch(wanted);
    struct gf_nearest_word nearest;

    if (meant)
        return meant;
    gf_nearest_word_begin(&nearest, wanted);
    for (size_t i = 0; i < GF_OPTION_COUNT; i++) {
        const char *candidate = without_prefix(gf_option_rows[i].name);
        /*
         * Return the name if it was only spelled in another case, or if the user wrote a flag as a
         * variable: GPUFEED_MODE for --mode, which sets GPUFEED.
         */
        if (gf_same_word(name, gf_option_rows[i].name) ||
            gf_same_word(wanted, gf_option_rows[i].token))
            return gf_option_rows[i].name;
        /*
         * GPUFEED is skipped. Without the prefix it is an empty word, to which every short word is
         * close.
         */
        if (*candidate)
            gf_nearest_word_try(&nearest, candidate, gf_option_rows[i].name);
    }
    return nearest.found;
}

/*
 * Whether the value is a word that means "off". By edit distance, such a word may be closer to
 * another word, as "none" is to "node".
 */
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
    const char *const *words = row->kind == gf_option_size ? of_sizes : row->choices;
    const size_t length = strlen(value);
    const bool off = means_off(value);
    struct gf_nearest_word nearest;

    if (!words || length < 2)
        return NULL;
    gf_nearest_word_begin(&nearest, value);
    for (; *words; words++) {
        if (gf_same_start(*words, value, length) || (off && strcmp(*words, "off") == 0))
            return *words;
        gf_nearest_word_try(&nearest, *words, *words);
    }
    return nearest.found;
}
