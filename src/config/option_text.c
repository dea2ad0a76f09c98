/* SPDX-License-Identifier: Apache-2.0 */
#include "config/option_text.h"

#include "base/fmt.h"
#include "base/parse.h"

/* Writes the words of the row whose bits are set, joined by the separator. Returns buf. */
static const char *join_words(const struct gf_option_row *row, unsigned bits, const char *separator,
                              char *buf, size_t size)
{
    size_t at = 0;

    *buf = '\0';
    for (size_t i = 0; row->choices[i] && at < size; i++)
        if (bits >> i & 1)
            at += (size_t)gf_fmt(buf + at, size - at, "%s%s", at ? separator : "", row->choices[i]);
    return buf;
}

/* Writes a size in the largest unit that gives a whole number, as in "64M". Returns buf. */
static const char *format_size(uint64_t bytes, char *buf, size_t size)
{
    static const char units[] = " KMGT";
    unsigned unit = 0;

    while (bytes && bytes % 1024 == 0 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    gf_fmt(buf, size, "%lu%.*s", bytes, unit ? 1 : 0, &units[unit]);
    return buf;
}

const char *gf_option_text_allowed(const struct gf_option_row *row, bool is_synopsis, char *buf,
                                   size_t size)
{
    char low[24], high[24], words[160];

    switch (row->kind) {
    case gf_option_choice:
        return join_words(row, ~0u, is_synopsis ? "|" : ", ", buf, size);
    case gf_option_number:
        gf_fmt(buf, size, is_synopsis ? "%lu..%lu" : "%lu to %lu", row->low, row->high);
        break;
    case gf_option_size:
        gf_fmt(buf, size, is_synopsis ? "auto|%s..%s" : "auto, %s to %s",
               format_size(row->low, low, sizeof(low)), format_size(row->high, high, sizeof(high)));
        break;
    case gf_option_path:
        gf_fmt(buf, size, is_synopsis ? "off|PATH" : "off, or a path of fewer than %d bytes",
               GF_OPTION_PATH_MAX);
        break;
    case gf_option_names:
        gf_fmt(buf, size,
               is_synopsis ? "off|NAME,..."
                           : "off, or names, separated by commas, of fewer than %d bytes",
               GF_OPTION_PATH_MAX);
        break;
    case gf_option_list:
        gf_fmt(buf, size,
               is_synopsis ? "off|all|%s" : "off, all, or a list, separated by commas, of %s",
               join_words(row, ~0u, is_synopsis ? "," : ", ", words, sizeof(words)));
        break;
    }
    return buf;
}

const char *gf_option_text_value(const struct gf_options *o, const struct gf_option_row *row,
                                 char *buf, size_t size)
{
    const void *value = gf_option_value(o, row);

    switch (row->kind) {
    case gf_option_choice:
        return row->choices[*(const int *)value];
    case gf_option_number:
        gf_fmt(buf, size, "%u", *(const unsigned *)value);
        return buf;
    case gf_option_size: {
        const uint64_t bytes = *(const uint64_t *)value;
        return bytes == GF_SIZE_AUTO ? "auto" : format_size(bytes, buf, size);
    }
    case gf_option_list: {
        const unsigned bits = *(const unsigned *)value;
        return bits ? join_words(row, bits, ",", buf, size) : "off";
    }
    case gf_option_path:
    case gf_option_names:
        break;
    }
    return value;
}

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
    static const char *const off[] = {"disable", "disabled", "off", NULL}, *const on[] = {
                                                                               "enable", "enabled",
                                                                               "on", NULL};

    return gf_word_index(off, wanted) >= 0  ? "GPUFEED=off"
           : gf_word_index(on, wanted) >= 0 ? "GPUFEED=on"
                                            : NULL;
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
    static const char *const words[] = {"none", "never", "disable", "disabled", NULL};
    return gf_word_index(words, value) >= 0;
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

const char *gf_validate_value(const struct gf_option_row *row, const char *value, char *buf,
                              size_t size)
{
    char allowed[160], word[GF_OPTION_WORD_MAX];
    const char *nearest = gf_suggest_value(row, gf_option_wrong_word(row, value, word));

    gf_option_text_allowed(row, false, allowed, sizeof(allowed));
    gf_fmt(buf, size,
           nearest ? "is not valid; allowed: %s (did you mean %s?)" : "is not valid; allowed: %s",
           allowed, nearest);
    return buf;
}

/*
 * Describes the mistake in an entry of the environment. Returns false if the entry is valid or is
 * not a setting of the library.
 */
static bool format_mistake(const char *entry, bool from_run, char *line, size_t size)
{
    char name[64], mistake[256];
    const char *value = gf_name_split(entry, name, sizeof(name));

    if (!value || gf_name_is_internal(name))
        return false;
    const struct gf_option_row *row = gf_option_by_name(name);
    if (!row) {
        const char *nearest = gf_suggest_name(name);
        gf_fmt(line, size,
               nearest ? "%s is not an option (did you mean %s?)"
                       : "%s is not an option; `gpufeed run --help` lists them",
               name, nearest);
        return true;
    }
    if (!*value || gf_option_check(row, value) == 0)
        return false;
    const char *fallback = gf_option_fallback(row, from_run);
    gf_fmt(line, size, "%s=%.80s %s; using %s", name, value,
           gf_validate_value(row, value, mistake, sizeof(mistake)), *fallback ? fallback : "none");
    return true;
}

void gf_validate_environment(char *const *envp, bool from_run,
                             void (*report)(void *closure, const char *line), void *closure)
{
    char line[512];

    for (; envp && *envp; envp++)
        if (format_mistake(*envp, from_run, line, sizeof(line)))
            report(closure, gf_plain_text(line)); /* it may be printed on a terminal */
}

bool gf_validate_rejects(const char *entry)
{
    char line[512], name[64];
    const char *value = gf_name_split(entry, name, sizeof(name));

    return (value && !*value && gf_option_by_name(name)) ||
           format_mistake(entry, false, line, sizeof(line));
}
